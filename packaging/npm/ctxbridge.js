#!/usr/bin/env node
// Runs the binary that npm installed for this system. It is in a package of its own, of which npm takes the one that fits.
"use strict";

const { spawn } = require("node:child_process");
const { constants } = require("node:os");

const NAME = `@ctxbridge/${process.platform}-${process.arch}`;
const KNOWN = Object.keys(require("../package.json").optionalDependencies);
const IS_WINDOWS = process.platform === "win32";
const REMEDY = "Install it again on this system, with --global if it was: npm install ctxbridge --include=optional";

/** Ends with two lines: the cause, and what to do. */
function fail(cause, remedy) {
  process.stderr.write(`ctxbridge: ${cause}\n${remedy}\n`);
  process.exit(1);
}

function find() {
  if (!KNOWN.includes(NAME)) {
    const known = KNOWN.map((name) => name.split("/")[1]).join(", ");
    fail(
      `there is no binary for ${process.platform}-${process.arch}, only for ${known}.`,
      "Build it from its repository: cargo install --path .",
    );
  }
  try {
    return require.resolve(`${NAME}/bin/ctxbridge${IS_WINDOWS ? ".exe" : ""}`);
  } catch {
    return fail(
      `the package ${NAME} with the binary is missing: optional packages were left out, or node_modules came from another system.`,
      REMEDY,
    );
  }
}

const binary = find();
const child = spawn(binary, process.argv.slice(2), { stdio: "inherit", windowsHide: false });

// Somebody may end only this process, and means the program. Without a handler, this one would end before it, too.
const forwarded = ["SIGINT", "SIGTERM", "SIGHUP"];
for (const signal of forwarded) {
  process.on(signal, () => {
    // Windows tells all processes of a console, and knows no other way than to end them at once.
    if (!IS_WINDOWS) child.kill(signal);
  });
}

child.on("error", (error) => fail(`cannot run ${binary}: ${error.message}.`, REMEDY));

child.on("exit", (code, signal) => {
  if (signal === null) process.exit(code);
  // Ends the same way, so that the shell sees what the program died of.
  for (const name of forwarded) process.removeAllListeners(name);
  process.kill(process.pid, signal);
  // Node.js ignores some signals; then the number says it.
  setTimeout(() => process.exit(128 + (constants.signals[signal] ?? 0)), 1000);
});
