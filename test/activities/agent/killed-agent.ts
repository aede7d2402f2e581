/**
 * @file An agent's process that tests may kill: `node killed-agent.js <state folder> <shim> <orders as JSON>`.
 *
 * It takes the orders as a worker would after each start, and keeps contact as fast as it can, so that at any moment it is in
 * the middle of writing something.
 */

import { openHost } from "../../../activities/agent/agent-host.ts";
import { openContactBook } from "../../../activities/agent/contact-book.ts";
import { sinceBootMs } from "../../../activities/agent/monotonic-clock.ts";
import { createRunActivities } from "../../../activities/agent/run-activities.ts";
import type { RunOrder } from "../../../activities/agent-contract.ts";
import { hostId } from "../../../domain/ids.ts";

const [stateDir = "", shimPath = "", json = "[]"] = process.argv.slice(2);
// Written by the test that starts this program.
const orders = JSON.parse(json) as readonly RunOrder[];
const host = openHost({ stateDir, fleet: "default", id: hostId("eu-1", "host-1"), gpuCount: 8 });
const contacts = openContactBook([host], sinceBootMs);
contacts.agree({
  fleet: "default",
  epoch: "e1",
  silenceMs: 90_000,
  fenceMs: 600_000,
  onSilence: "fence",
});
setInterval(() => contacts.note(sinceBootMs()), 1);
const runs = createRunActivities({
  hosts: new Map([[host.id, host]]),
  gang: { look: () => Promise.resolve({ isClosed: false, beats: [] }) },
  task: () => ({
    heartbeat: () => undefined,
    cancelled: new AbortController().signal,
    reason: () => "asked",
  }),
  onUnattended: () => undefined,
  shimPath,
  env: process.env,
  log: { partBytes: 1_000_000, parts: 4 },
  minFreeBytes: 0,
});
process.stdout.write("up\n");
await Promise.all(orders.map((order) => runs.run(order)));
