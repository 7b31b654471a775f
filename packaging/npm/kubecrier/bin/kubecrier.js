#!/usr/bin/env node
// Starts the native program in place of this one: the same arguments, the same streams (stdout
// belongs to the protocol), the same signals, the same end.
"use strict";

const { spawn } = require("node:child_process");
const { optionalDependencies } = require("../package.json");

const PREFIX = "kubecrier-";

function stop(message) {
  process.stderr.write(`kubecrier: ${message}\n`);
  process.exit(1);
}

function nativeProgram() {
  const platform = `${process.platform}-${process.arch}`;
  const name = PREFIX + platform;
  if (!(name in optionalDependencies)) {
    const known = Object.keys(optionalDependencies).map((one) => one.slice(PREFIX.length));
    stop(
      `there is no program for ${platform}, only for ${known.join(", ")}; ` +
        "build it with Rust: https://github.com/kubecrier/kubecrier#readme",
    );
  }
  try {
    return require.resolve(`${name}/bin/kubecrier`);
  } catch {
    return stop(
      `the package ${name}, which has the program for this platform, is not installed; ` +
        "install again without --omit=optional (--no-optional), and on the platform that it runs on",
    );
  }
}

// The program ends by itself, in its own time; this one waits for it. A terminal sends ctrl-c to
// both, and a second one would end the program at once.
const signals = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"];
const sentToBoth = process.stdin.isTTY ? ["SIGINT", "SIGHUP", "SIGQUIT"] : [];
for (const signal of signals) {
  process.on(signal, () => sentToBoth.includes(signal) || child.kill(signal));
}

// After the handlers: a signal must not find one without the other.
const child = spawn(nativeProgram(), process.argv.slice(2), { stdio: "inherit" });

child.on("error", (error) => {
  const libc = error.code === "ENOENT" ? "; it needs glibc, which Alpine does not have" : "";
  stop(`cannot start ${child.spawnfile}: ${error.message}${libc}`);
});

child.on("exit", (code, signal) => {
  if (signal === null) {
    process.exit(code);
  }
  for (const one of signals) {
    process.removeAllListeners(one);
  }
  // Ended by a signal: who started this sees the same.
  process.kill(process.pid, signal);
});
