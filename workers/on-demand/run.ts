/**
 * @file A worker on demand: starts, works, and ends when it has been idle for a while.
 *
 * After it has drained, it looks at its task queues once and starts a successor for tasks that came between its last poll and
 * its end; they would wait for the next event otherwise. When it is killed, nothing is lost: another worker continues from
 * history.
 */

import type { Client } from "@temporalio/client";
import { pino, type Logger } from "pino";
import { resolveConnection } from "../connection.ts";
import type { OnDemandLife } from "../workflow-worker.ts";
import { backlogCount } from "./backlog.ts";
import { deploymentVersionOf } from "./deployment.ts";
import { TASK_QUEUES, type ControlRole } from "./places.ts";
import type { RoleLock } from "./role-lock.ts";
import type { OnDemandSetting } from "./setting.ts";
import { startDetached } from "./start.ts";
import { join } from "node:path";

export interface OnDemandRun {
  readonly role: ControlRole;
  readonly setting: OnDemandSetting;
  readonly lock: RoleLock;
}

/** Resolves when the worker has ended, with the exit status of its process; throws where `ORBWEAVER_LOG_LEVEL` names none. */
export async function runOnDemand(run: OnDemandRun): Promise<number> {
  const level = process.env["ORBWEAVER_LOG_LEVEL"] ?? "info";
  const logger = pino({ level, base: { role: run.role, pid: process.pid } }, process.stderr);
  try {
    await work(run, logger);
    return 0;
  } catch (error) {
    logger.error({ error: String(error) }, "the worker failed");
    return 1;
  }
}

async function work({ role, setting, lock }: OnDemandRun, logger: Logger): Promise<void> {
  const { stateDir, cwd, flags, idleMs, buildId } = setting;
  const connection = await resolveConnection(flags, { env: process.env, cwd, stateDir });
  const onDemand: OnDemandLife = {
    idleMs,
    ...(buildId !== undefined && { version: deploymentVersionOf(role, buildId) }),
    onDraining: () => {
      logger.info({ idleMs }, "idle, ending");
      lock.startDraining();
    },
    onDrained: async (client) => {
      if (await hasWork(client, role, logger)) startDetached(role, setting);
    },
  };
  const parts = {
    ...{ connection, stateDir },
    logger,
    onDemand,
    onReady: () => {
      const { user, system } = process.cpuUsage();
      const cpuMs = Math.round((user + system) / 1_000);
      logger.info({ sinceStartMs: Math.round(performance.now()), cpuMs }, "ready");
    },
  };
  const storeDir = join(stateDir, "store");
  switch (role) {
    case "fleet": {
      const { runFleetWorker } = await import("../fleet-worker.ts");
      return await runFleetWorker({ ...parts, storeDir });
    }
    case "jobs": {
      const { runJobsWorker } = await import("../jobs-worker.ts");
      return await runJobsWorker(parts);
    }
    case "solver": {
      const { runSolverWorker } = await import("../solver-worker.ts");
      return await runSolverWorker({ ...parts, storeDir });
    }
  }
}

/** An unknown backlog is no reason to stay: the next task starts the next worker. */
async function hasWork(client: Client, role: ControlRole, logger: Logger): Promise<boolean> {
  try {
    return (await backlogCount(client, TASK_QUEUES[role])) > 0;
  } catch (error) {
    logger.warn({ error: String(error) }, "the backlog could not be read");
    return false;
  }
}
