// Packs the launcher and the package of one platform:
//   node packaging/npm/pack.mjs --platform linux-x64 --binary target/release/kubecrier --out dist
// The same bytes for the same binary: npm puts no times and no owners into its archives.
import { execFileSync } from "node:child_process";
import * as fs from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const here = path.dirname(fileURLToPath(import.meta.url));
const launcher = path.join(here, "kubecrier");
const about = JSON.parse(fs.readFileSync(path.join(launcher, "package.json"), "utf8"));

const { values } = parseArgs({
  options: { platform: { type: "string" }, binary: { type: "string" }, out: { type: "string" } },
});
const { platform, binary, out } = values;
const name = `kubecrier-${platform}`;
if (!binary || !out || !(name in about.optionalDependencies)) {
  const known = Object.keys(about.optionalDependencies).join(", ");
  console.error(`usage: pack.mjs --platform PLATFORM --binary FILE --out FOLDER; packages: ${known}`);
  process.exit(64);
}

function pack(folder) {
  const pack = ["pack", "--silent", "--ignore-scripts", "--pack-destination", path.resolve(out), folder];
  execFileSync("npm", pack, { stdio: ["ignore", "inherit", "inherit"] });
}

const scratch = fs.mkdtempSync(path.join(os.tmpdir(), "kubecrier-npm-"));
try {
  fs.mkdirSync(out, { recursive: true });
  const [system, cpu] = platform.split("-");
  const { version, license, homepage, repository } = about;
  const description = `The program of kubecrier for ${platform}; install the package kubecrier instead`;
  const files = ["bin/kubecrier"];
  const native = { name, version, description, license, homepage, repository, os: [system], cpu: [cpu], files };
  const programs = path.join(scratch, "native");
  fs.mkdirSync(path.join(programs, "bin"), { recursive: true });
  fs.writeFileSync(path.join(programs, "package.json"), `${JSON.stringify(native, null, 2)}\n`);
  fs.copyFileSync(binary, path.join(programs, "bin/kubecrier"));
  fs.chmodSync(path.join(programs, "bin/kubecrier"), 0o755);
  const starter = path.join(scratch, "launcher");
  fs.cpSync(launcher, starter, { recursive: true });
  for (const folder of [programs, starter]) {
    // npm packs a licence whatever `files` says.
    fs.copyFileSync(path.join(here, "../../LICENSE"), path.join(folder, "LICENSE"));
    pack(folder);
  }
} finally {
  fs.rmSync(scratch, { recursive: true });
}
