#!/usr/bin/env node
/**
 * @file The program `orbweaver`: runs the command line and exits with its status.
 *
 * Loads only what the words need: nothing for the version, else the smallest bundled file that has the verb.
 */

import { fileURLToPath } from "node:url";
import { loadBundled } from "../workers/bundled.ts";
import { packageVersion } from "./command/package-version.ts";
import { bundleOf } from "./light-verbs.ts";
import type * as Program from "./program.ts";
import { drained, processIo } from "./terminal/io.ts";

const words = process.argv.slice(2);
const io = processIo();
const exitCode = await run();
// Waits until the reader has taken all output, because the rest would be lost with the process.
await Promise.all([drained(io.stdout), drained(io.stderr)]);
// Sockets of a connection that failed half-way must not keep the command alive.
process.exit(exitCode);

async function run(): Promise<number> {
  const [word = ""] = words;
  if (word === "--version" || word === "-V") {
    io.stdout.write(`${packageVersion()}\n`);
    return 0;
  }
  const bundle = bundleOf(await withVerbFirst(), io.env);
  const bundled =
    bundle && loadBundled<typeof Program>(fileURLToPath(new URL(bundle, import.meta.url)));
  const { runCli } = bundled ?? (await import("./program.ts"));
  return await runCli(words, { io });
}

/** Options may stand before the verb; to know them takes a parser. */
async function withVerbFirst(): Promise<readonly string[]> {
  if (words[0]?.startsWith("-") !== true) return words;
  return (await import("./command/verb-first.ts")).verbFirst(words);
}
