/** @file What the server says of a workflow that has sent an order: its memo, its start, and the runs before it. */

import { isGrpcServiceError, type Client } from "@temporalio/client";
import { setTimeout as sleep } from "node:timers/promises";
import { failure } from "../agent/system/failures.ts";

const LOOK_TIMEOUT_MS = 10_000;
const LOOKS = 3;
const LOOK_AGAIN_MS = 1_000;
const NOT_FOUND = 5;

export interface WorkflowRun {
  readonly workflowId: string;
  readonly runId: string;
}

export interface WorkflowFacts {
  readonly memo: Readonly<Record<string, unknown>>;
  readonly startedAtMs: number;
  /** Absent where the server does not tell it. */
  readonly firstRunId?: string;
}

/** Throws HOST_REFUSED when the server does not answer: the sender asks again, here or elsewhere. */
export async function memoOf(
  client: Client,
  { workflowId, runId }: WorkflowRun,
): Promise<WorkflowFacts> {
  return await looked(client, `who has signed ${workflowId}`, async () => {
    const handle = client.workflow.getHandle(workflowId, runId);
    const { memo = {}, startTime, raw } = await handle.describe();
    const { firstRunId } = raw.workflowExecutionInfo ?? {};
    return { memo, startedAtMs: startTime.getTime(), ...(firstRunId && { firstRunId }) };
  });
}

export interface RunStart {
  /** The first of the runs that one start has led to: those that were continued, tried again or reset share it, and a workflow that was started later under the same id has another. */
  readonly firstRunId: string;
  /** The run that it goes on from; absent for one that was started or reset. */
  readonly continuedRunId?: string;
}

/** Undefined where the server has no such run, or not any more. Throws HOST_REFUSED as above. */
export async function startOf(
  client: Client,
  execution: WorkflowRun,
): Promise<RunStart | undefined> {
  const { workflowService, options } = client;
  return await looked(client, `how ${execution.workflowId} began`, async () => {
    try {
      const { history } = await workflowService.getWorkflowExecutionHistory({
        namespace: options.namespace,
        execution,
        maximumPageSize: 1,
      });
      const [first] = history?.events ?? [];
      const { firstExecutionRunId, continuedExecutionRunId } =
        first?.workflowExecutionStartedEventAttributes ?? {};
      if (!firstExecutionRunId) return undefined;
      return {
        firstRunId: firstExecutionRunId,
        ...(continuedExecutionRunId && { continuedRunId: continuedExecutionRunId }),
      };
    } catch (error) {
      if (isGrpcServiceError(error) && Number(error.code) === NOT_FOUND) return undefined;
      throw error;
    }
  });
}

async function looked<Found>(
  client: Client,
  what: string,
  ask: () => Promise<Found>,
): Promise<Found> {
  for (let look = 1; ; look += 1) {
    try {
      return await client.withAbortSignal(AbortSignal.timeout(LOOK_TIMEOUT_MS), ask);
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      if (look === LOOKS) throw failure("HOST_REFUSED", `it cannot be found out ${what}: ${why}`);
      await sleep(LOOK_AGAIN_MS);
    }
  }
}
