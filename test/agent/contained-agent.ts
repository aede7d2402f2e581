/**
 * @file An agent's process for tests that run it as another user: `node contained-agent.js <state folder> <shim> <native or ""> <order as JSON>`. It runs the
 * order in the best container that this user has, and prints the kind of it and the report's end.
 */

import { openHost } from "../../agent/runs/agent-host.ts";
import { findContainment } from "../../agent/system/find-containment.ts";
import { nodeSystem } from "../../agent/system/node-system.ts";
import type { RunOrder } from "../../protocol/agent-contract.ts";
import { plainRuns } from "./plain-ports.ts";

const [stateDir = "", shimPath = "", native = "", json = "{}"] = process.argv.slice(2);
// Written by the test that starts this program.
const order = JSON.parse(json) as RunOrder;
const containment = findContainment();
const host = openHost(
  { stateDir, fleet: "default", id: order.host, gpuCount: 8, containment },
  nodeSystem,
);
const { run } = plainRuns(host, { shimPath, native });
const { end } = await run(order);
process.stdout.write(JSON.stringify({ kind: containment.kind, end }));
