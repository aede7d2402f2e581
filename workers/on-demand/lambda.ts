/**
 * @file A handler for AWS Lambda: one invocation is one life of a worker on demand, which ends when it is idle or when the
 * invocation's time is nearly over.
 *
 * Temporal's worker controller (provider `aws-lambda`) or any other event invokes it; the event is not read. The function's
 * environment configures the worker: ORBWEAVER_ROLE (fleet, jobs or solver), ORBWEAVER_BUILD_ID (the deployment version;
 * absent: unversioned), ORBWEAVER_FLEET, and Temporal's own TEMPORAL_* variables. A worker that is cut off loses nothing: after
 * a timeout, another worker gets its tasks.
 */

import pino from "pino";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { DEFAULT_FLEET } from "../../protocol/messages.ts";
import { resolveConnection } from "../connection.ts";
import { runFleetWorker } from "../fleet-worker.ts";
import { runJobsWorker } from "../jobs-worker.ts";
import { runSolverWorker } from "../solver-worker.ts";
import { fleetStateDir } from "../state.ts";
import { deploymentVersionOf } from "./deployment.ts";
import { isControlRole } from "./places.ts";
import { DEFAULT_IDLE_MS } from "./setting.ts";
import { join } from "node:path";

/** The used part of Lambda's context. */
export interface LambdaContext {
  readonly getRemainingTimeInMillis: () => number;
}

/** For draining (5 s of grace in the worker) and closing before Lambda freezes the process. */
const SHUTDOWN_MS = 8_000;
const LEAST_WORK_MS = 2_000;

export async function handler(_event: unknown, context: LambdaContext): Promise<void> {
  const { env } = process;
  const role = env["ORBWEAVER_ROLE"];
  if (!isControlRole(role)) {
    throw new OrbweaverError(
      "BAD_INPUT",
      `ORBWEAVER_ROLE ${JSON.stringify(role ?? "")} is not a role. Set fleet, jobs or solver in the function's environment.`,
    );
  }
  const workMs = context.getRemainingTimeInMillis() - SHUTDOWN_MS;
  if (workMs < LEAST_WORK_MS) {
    throw new OrbweaverError(
      "BAD_INPUT",
      `the function's timeout leaves ${String(workMs)} ms for work; ${String(LEAST_WORK_MS)} are needed. Set a timeout of a minute or more.`,
    );
  }
  const stateDir = fleetStateDir(env, env["ORBWEAVER_FLEET"] ?? DEFAULT_FLEET);
  const connection = await resolveConnection({}, { env, cwd: process.cwd(), stateDir });
  const buildId = env["ORBWEAVER_BUILD_ID"];
  const ended = new AbortController();
  const clock = setTimeout(() => ended.abort(), workMs);
  const setting = {
    ...{ connection, stateDir },
    logger: pino({ level: env["ORBWEAVER_LOG_LEVEL"] ?? "info", base: { role } }),
    signal: ended.signal,
    onDemand: {
      idleMs: DEFAULT_IDLE_MS,
      ...(buildId !== undefined &&
        buildId !== "" && { version: deploymentVersionOf(role, buildId) }),
    },
  };
  try {
    const storeDir = join(stateDir, "store");
    if (role === "fleet") await runFleetWorker({ ...setting, storeDir });
    else if (role === "jobs") await runJobsWorker(setting);
    else await runSolverWorker({ ...setting, storeDir });
  } finally {
    clearTimeout(clock);
  }
}
