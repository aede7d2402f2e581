/**
 * @file A worker of the floor, as a process of its own: `node main.js <address> <queue> <bundle> <entity|jobs|host>`.
 *
 * Its limits are those of the product's workers in the same place, so neither side waits for slots that the other has.
 */

import { NativeConnection, Worker, type WorkerOptions } from "@temporalio/worker";
import { Client } from "@temporalio/client";
import { dirname, join } from "node:path";
import { findContainment } from "../../agent/system/find-containment.ts";
import {
  findNative,
  nativeFile,
  SUPERVISOR_VARIABLE,
} from "../../agent/system/native-supervisor.ts";
import { openStarter } from "../../agent/system/starter.ts";
import { packageRoot } from "../../workers/server/package-root.ts";
import { createFloorActivities } from "./activities.ts";

const [address = "", taskQueue = "", codePath = "", role = ""] = process.argv.slice(2);
const connection = await NativeConnection.connect({ address });
const native = findNative(nativeFile(packageRoot()), process.env[SUPERVISOR_VARIABLE]);
const place = {
  dir: join(dirname(codePath), "floor-launches"),
  shimPath: join(packageRoot(), "dist/workers/shim.cjs"),
  nativePath: native,
  starter:
    native === undefined || role !== "host"
      ? undefined
      : openStarter(native, new AbortController().signal),
  containment: findContainment(),
  log: { partBytes: 8 * 2 ** 20, parts: 4 },
};
const activities = { ...createFloorActivities(new Client({ connection }), place) };
const workflows = { workflowBundle: { codePath }, activities } as const;
const parts: Partial<WorkerOptions> =
  role === "host"
    ? {
        activities,
        maxConcurrentActivityTaskExecutions: 128,
        activityTaskPollerBehavior: { type: "simple-maximum", maximum: 2 },
      }
    : role === "jobs"
      ? {
          ...workflows,
          maxCachedWorkflows: 2_000,
          maxConcurrentLocalActivityExecutions: 1_000,
          maxConcurrentWorkflowTaskExecutions: 40,
        }
      : { ...workflows, maxCachedWorkflows: 50 };
const worker = await Worker.create({ connection, namespace: "default", taskQueue, ...parts });
const running = worker.run();
process.send?.({ kind: "ready" });
process.disconnect();
await running;
await connection.close();
