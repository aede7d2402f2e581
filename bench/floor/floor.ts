/** @file Brings the floor up on a server: its bundle, its three workers, its entities. */

import { bundleWorkflowCode } from "@temporalio/worker";
import { randomBytes } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { packageRoot } from "../../workers/server/package-root.ts";
import type { BenchWorld } from "../live/world.ts";
import type { FloorWay } from "./workflows.ts";

export interface Floor {
  /** The entity for each way of signalling. */
  readonly entityIds: Readonly<Record<FloorWay, string>>;
  readonly callerId: string;
  readonly jobsQueue: string;
  readonly hostQueue: string;
}

/** Entity, jobs and host each have a worker process of their own, as fleet, jobs and agent have. */
export async function startFloor(world: BenchWorld): Promise<Floor> {
  const { temporal, processes, address, dir, fleet } = world;
  const { code } = await bundleWorkflowCode({
    workflowsPath: join(packageRoot(), "dist/bench/floor/workflows.js"),
    logger: SILENT,
  });
  const bundle = join(dir, "floor-bundle.js");
  await writeFile(bundle, code);
  const name = `${fleet}-floor-${randomBytes(3).toString("hex")}`;
  const floor = {
    entityIds: { "by server": `${name}-entity-s`, "by client": `${name}-entity-c` },
    callerId: `${name}-caller`,
    jobsQueue: `${name}-jobs`,
    hostQueue: `${name}-host`,
  };
  const entityQueue = `${name}-entity`;
  await Promise.all(
    (
      [
        ["entity", entityQueue],
        ["jobs", floor.jobsQueue],
        ["host", floor.hostQueue],
      ] as const
    ).map(([role, queue]) =>
      processes.start(`floor-${role}`, "bench/floor/main.js", [address, queue, bundle, role]),
    ),
  );
  for (const [way, workflowId] of Object.entries(floor.entityIds)) {
    await temporal.workflow.start("floorEntity", {
      workflowId,
      taskQueue: entityQueue,
      args: [way],
    });
  }
  await temporal.workflow.start("floorCaller", {
    workflowId: floor.callerId,
    taskQueue: floor.jobsQueue,
    args: [floor.entityIds["by server"]],
  });
  return floor;
}

const quiet = (): void => undefined;
const SILENT = { log: quiet, trace: quiet, debug: quiet, info: quiet, warn: quiet, error: quiet };
