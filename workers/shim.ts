/**
 * @file The shim's entry: `node shim.js <folder of the launch>`. An agent starts it; it outlives the agent and ends with its
 * processes.
 */

import { readFileSync } from "node:fs";
import { watchContact } from "../agent/presence/fence-last-resort.ts";
import { superviseLaunch } from "../agent/shim/supervisor.ts";
import { nodeSystem } from "../agent/system/node-system.ts";

/** The agent signals the ranks itself; a shim that died of the same signal could not write how they ended. */
const IGNORED = ["SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGPIPE"] as const;

const [dir] = process.argv.slice(2);
if (dir === undefined) {
  process.stderr.write("shim: no launch folder was given; only an agent starts this program\n");
  process.exitCode = 2;
} else {
  for (const signal of IGNORED) process.on(signal, () => undefined);
  // `process.stdin` would make it non-blocking: an agent that is slow to write would look like one that failed.
  superviseLaunch(dir, nodeSystem, () => readFileSync(0, "utf8"));
  watchContact(dir, nodeSystem);
}
