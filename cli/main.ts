#!/usr/bin/env node
/** @file The program `orbweaver`: runs the command line and leaves with its exit status. */

import { processIo } from "./io.ts";
import { runCli } from "./program.ts";

// Sockets of a connection that failed half-way must not keep the command alive.
process.exit(await runCli(process.argv.slice(2), { io: processIo() }));
