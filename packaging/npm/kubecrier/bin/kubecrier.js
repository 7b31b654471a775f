#!/usr/bin/env node
// Starts the native program in place of this one: the same arguments, the same streams (stdout
// belongs to the protocol), the same signals, the same end.
"use strict";

const { execFileSync, spawn } = require("node:child_process");
const { fstatSync, readFileSync } = require("node:fs");
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

// The group of processes that this one is in, and the one that its terminal sends signals to; that
// is no number above 0 where there is no terminal, or none any more.
function groups() {
  try {
    if (process.platform === "linux") {
      // Behind the name, which may have spaces: the state, the parent, the group, the session, the
      // terminal, and the group in its foreground.
      const words = readFileSync("/proc/self/stat", "utf8").split(") ").pop().split(" ");
      return { own: Number(words[2]), foreground: Number(words[5]) };
    }
    const question = ["-o", "pgid=,tpgid=", "-p", String(process.pid)];
    const words = execFileSync("ps", question, { encoding: "utf8" }).trim().split(/\s+/);
    return { own: Number(words[0]), foreground: Number(words[1]) };
  } catch {
    // Where nobody says, a terminal is one that is typed into.
    return { own: 1, foreground: process.stdin.isTTY ? 1 : 0 };
  }
}

function hasTerminal({ foreground }) {
  return foreground > 0;
}

// A client that starts this one writes to its stdin, and sends signals to this one alone, also
// from the foreground of a terminal.
function hasClient() {
  try {
    const stdin = fstatSync(0);
    return stdin.isFIFO() || stdin.isSocket();
  } catch {
    return false;
  }
}

// The program ends by itself, in its own time; this one waits for it. A terminal sends ctrl-c to
// both, and a second one would end the program at once.
const signals = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"];
const ofTerminals = hasClient() ? [] : ["SIGINT", "SIGHUP", "SIGQUIT"];
const atBegin = groups();

function isSentToBoth(signal) {
  if (!ofTerminals.includes(signal)) {
    return false;
  }
  const now = groups();
  const hungUp = hasTerminal(atBegin) && !hasTerminal(now);
  return now.own === now.foreground || hungUp;
}

for (const signal of signals) {
  process.on(signal, () => isSentToBoth(signal) || child.kill(signal));
}

// After the handlers: a signal must not find one without the other.
const child = spawn(nativeProgram(), process.argv.slice(2), { stdio: "inherit" });

// npx gives a signal to the shell between it and this one, which ends and tells nobody.
if (process.env.npm_lifecycle_event === "npx") {
  const shell = process.ppid;
  setInterval(() => process.ppid === shell || child.kill("SIGTERM"), 500).unref();
}

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
