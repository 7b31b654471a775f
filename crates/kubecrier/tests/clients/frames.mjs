// Judges frames by the published schemas, which the conformance suite carries: a line
// {version, method?, frame} in, a line that is empty or says what is wrong out.
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import readline from "node:readline";
import vm from "node:vm";

const modules = process.argv[2];
const require = createRequire(path.join(modules, "x.js"));
const { default: Ajv } = require("ajv");
const { default: Ajv2020 } = require("ajv/dist/2020");
const { default: formats } = require("ajv-formats");

const RESULTS = {
  initialize: "InitializeResult",
  "server/discover": "DiscoverResult",
  "tools/list": "ListToolsResult",
  "tools/call": "CallToolResult",
  "resources/list": "ListResourcesResult",
  "resources/templates/list": "ListResourceTemplatesResult",
  "resources/read": "ReadResourceResult",
  "prompts/list": "ListPromptsResult",
  "prompts/get": "GetPromptResult",
  "completion/complete": "CompleteResult",
};

// The literal that begins at this brace, whatever stands in its strings.
function literal(source, from) {
  let depth = 0;
  let quote = null;
  for (let at = from; at < source.length; at += 1) {
    const one = source[at];
    if (quote !== null) {
      if (one === "\\") at += 1;
      else if (one === quote) quote = null;
    } else if (one === "`" || one === '"' || one === "'") quote = one;
    else if (one === "{") depth += 1;
    else if (one === "}" && (depth -= 1) === 0) return source.slice(from, at + 1);
  }
  throw new Error("a schema without an end");
}

const suite = path.join(modules, "conformance-next/dist/index.js");
const source = fs.readFileSync(suite, "utf8");
const table = /\{"2025-03-26":(\w+),"2025-06-18":(\w+),"2025-11-25":(\w+),\[\w+\]:(\w+)\}/.exec(source);
const versions = ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];
const judges = {};
versions.forEach((version, number) => {
  const begin = `${table[number + 1]}={$schema:`;
  const from = source.indexOf(begin) + begin.indexOf("{");
  const schema = JSON.parse(JSON.stringify(vm.runInNewContext(`(${literal(source, from)})`)));
  const newer = schema.$schema.includes("2020-12");
  const ajv = new (newer ? Ajv2020 : Ajv)({ strict: false, allErrors: false });
  formats(ajv);
  ajv.addSchema(schema, "mcp");
  judges[version] = { ajv, place: newer ? "$defs" : "definitions", schema };
});

function judge({ version, method, frame }) {
  // The suite has no schema of the first version. The second one added to it and took
  // nothing away that a server sends.
  const judged = judges[version === "2024-11-05" ? "2025-03-26" : version];
  if (judged === undefined) return `no schema of ${version}`;
  const { ajv, place, schema } = judged;
  const known = (name) => schema[place][name] !== undefined;
  const fits = (name, value) => {
    const valid = ajv.validate({ $ref: `mcp#/${place}/${name}` }, value);
    return valid ? "" : `${name}: ${ajv.errorsText()}`;
  };
  if (frame.error !== undefined) {
    return fits(known("JSONRPCErrorResponse") ? "JSONRPCErrorResponse" : "JSONRPCError", frame);
  }
  if (frame.result !== undefined) {
    const whole = fits(known("JSONRPCResultResponse") ? "JSONRPCResultResponse" : "JSONRPCResponse", frame);
    const name = RESULTS[method];
    return whole || (name !== undefined && known(name) ? fits(name, frame.result) : "");
  }
  if (frame.id !== undefined) return fits("JSONRPCRequest", frame) || fits("ServerRequest", frame);
  // The one notification of our own: something is missing here.
  const ours = frame.method === "notifications/stream/gap";
  // The schema of an extension is not a part of this one.
  const tasks = version === "2026-07-28" && frame.method === "notifications/tasks";
  return fits("JSONRPCNotification", frame) || (ours || tasks ? "" : fits("ServerNotification", frame));
}

readline.createInterface({ input: process.stdin }).on("line", (line) => {
  let verdict;
  try {
    verdict = judge(JSON.parse(line));
  } catch (error) {
    verdict = `cannot judge: ${error.stack}`;
  }
  process.stdout.write(`${verdict.replaceAll("\n", " ")}\n`);
});
