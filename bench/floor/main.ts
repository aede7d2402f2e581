/**
 * @file A worker of the floor, as a process of its own: `node main.js <address> <queue> <bundle> <entity|jobs|host>`.
 *
 * Its limits are those of the product's workers in the same place, so neither side waits for slots that the other has.
 */

import { NativeConnection, Worker, type WorkerOptions } from "@temporalio/worker";
import { Client } from "@temporalio/client";
import { createFloorActivities } from "./activities.ts";

const [address = "", taskQueue = "", codePath = "", role = ""] = process.argv.slice(2);
const connection = await NativeConnection.connect({ address });
const activities = { ...createFloorActivities(new Client({ connection })) };
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
