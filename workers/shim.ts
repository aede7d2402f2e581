/** @file The shim's entry: `node shim.js <folder of the launch>`. Started by an agent, outlives it, ends with its processes. */

import { watchContact } from "../activities/agent/fence-last-resort.ts";
import { superviseLaunch } from "../activities/agent/supervisor.ts";

const [dir] = process.argv.slice(2);
if (dir === undefined) {
  process.stderr.write("shim: no launch folder was given; only an agent starts this program\n");
  process.exitCode = 2;
} else {
  superviseLaunch(dir);
  watchContact(dir);
}
