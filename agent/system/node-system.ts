/** @file The host's own operating system, through Node. Loaded by the shim, so it needs nothing but Node. */

import type { System } from "../ports/system.ts";
import { freePort } from "./free-port.ts";
import { nodeClock } from "./node-clock.ts";
import { nodeFiles } from "./node-files.ts";
import { nodeGroups } from "./node-groups.ts";
import { nodeProcesses } from "./node-processes.ts";

export const nodeSystem: System = {
  files: nodeFiles,
  processes: nodeProcesses,
  groups: nodeGroups,
  clock: nodeClock,
  freePort,
  // The global loads its module at the first use: `node:crypto` would cost every shim milliseconds of its start.
  randomHex: (byteCount) =>
    Buffer.from(crypto.getRandomValues(new Uint8Array(byteCount))).toString("hex"),
};
