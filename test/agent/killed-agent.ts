/**
 * @file An agent's process that tests may kill: `node killed-agent.js <state folder> <shim> <native or ""> <orders as JSON>`.
 *
 * It takes the orders as a worker would after each start, and keeps contact as fast as it can, so that at any moment it is in
 * the middle of writing something.
 */

import { openHost } from "../../agent/runs/agent-host.ts";
import { openContactStore } from "../../agent/presence/contact-store.ts";
import { nodeSystem } from "../../agent/system/node-system.ts";
import type { RunOrder } from "../../protocol/agent-contract.ts";
import { plainRuns } from "./plain-ports.ts";
import { hostId } from "../../domain/values/ids.ts";

const [stateDir = "", shimPath = "", native = "", json = "[]"] = process.argv.slice(2);
// Written by the test that starts this program.
const orders = JSON.parse(json) as readonly RunOrder[];
const host = openHost(
  { stateDir, fleet: "default", id: hostId("eu-1", "host-1"), gpuCount: 8 },
  nodeSystem,
);
const contacts = openContactStore([host], nodeSystem);
contacts.agree({
  fleet: "default",
  epoch: "e1",
  silenceMs: 90_000,
  fenceMs: 600_000,
  onSilence: "fence",
});
setInterval(() => contacts.note(nodeSystem.clock.sinceBootMs()), 1);
const runs = plainRuns(host, { shimPath, native });
process.stdout.write("up\n");
await Promise.all(orders.map((order) => runs.run(order)));
