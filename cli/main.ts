#!/usr/bin/env node
/** @file The program `orbweaver`: runs the command line and exits with its status. */

import { drained, processIo } from "./terminal/io.ts";
import { runCli } from "./program.ts";

const io = processIo();
const exitCode = await runCli(process.argv.slice(2), { io });
// Waits until the reader has taken all output, because the rest would be lost with the process.
await Promise.all([drained(io.stdout), drained(io.stderr)]);
// Sockets of a connection that failed half-way must not keep the command alive.
process.exit(exitCode);
