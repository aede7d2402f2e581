#!/usr/bin/env node
/** @file The program `orbweaver`: runs the command line and leaves with its exit status. */

import { drained, processIo } from "./io.ts";
import { runCli } from "./program.ts";

const io = processIo();
const exitCode = await runCli(process.argv.slice(2), { io });
// A pipe takes what its reader takes; what it has not taken yet would be lost with the process.
await Promise.all([drained(io.stdout), drained(io.stderr)]);
// Sockets of a connection that failed half-way must not keep the command alive.
process.exit(exitCode);
