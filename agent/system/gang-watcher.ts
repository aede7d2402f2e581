/**
 * @file The real `GangWatcher`: a job's pending `run` activities carry the last heartbeat of each host.
 *
 * One describe call a look; heartbeats are decoded by the client's own data converter, so a payload codec applies.
 */

import type { Client } from "@temporalio/client";
import { decodeArrayFromPayloads } from "@temporalio/common/lib/internal-non-workflow/index.js";
import { z } from "zod";
import { parseHostId, token } from "../../domain/values/ids.ts";
import { jobViewQuery } from "../../protocol/messages.ts";
import type { RunHeartbeat, RunOrder } from "../../protocol/agent-contract.ts";
import type { GangWatcher } from "../ports/temporal.ts";

const LOOK_TIMEOUT_MS = 10_000;
/** Of `PendingActivityState`: it has been given up, and its host may not have heard; the server takes its heartbeats all the same. */
const CANCEL_REQUESTED = 3;

const heartbeat = z.object({
  phase: z.enum(["prepared", "running"]),
  host: z.string().min(1),
  token: z.number().int().nonnegative(),
  masterPort: z.number().int().positive().optional(),
  tuner: z.string().max(64).optional(),
  startedAtMs: z.number().optional(),
});

export function createGangWatcher(client: Client): GangWatcher {
  return {
    look: async ({ workflowId, workflowRunId }) => {
      // A signal of our own in place of the activity's, which is aborted when the answer matters most.
      const { status, raw } = await client.withAbortSignal(
        AbortSignal.timeout(LOOK_TIMEOUT_MS),
        () => client.workflow.getHandle(workflowId, workflowRunId).describe(),
      );
      const runs = (raw.pendingActivities ?? []).filter(
        ({ activityType, state }) => activityType?.name === "run" && state !== CANCEL_REQUESTED,
      );
      const beats = await Promise.all(
        runs.map(async ({ heartbeatDetails }) => {
          const [details] = await decodeArrayFromPayloads(
            client.options.loadedDataConverter,
            heartbeatDetails?.payloads,
          );
          return readBeat(details);
        }),
      );
      return {
        isClosed: status.name !== "RUNNING",
        beats: beats.flatMap((beat) => beat ?? []),
      };
    },
  };
}

function readBeat(details: unknown): RunHeartbeat | undefined {
  const parsed = heartbeat.safeParse(details);
  if (!parsed.success) return undefined;
  const { phase, host, token: count, masterPort, tuner, startedAtMs } = parsed.data;
  return {
    phase,
    host: parseHostId(host),
    token: token(count),
    ...(masterPort !== undefined && { masterPort }),
    ...(tuner !== undefined && { tuner }),
    ...(startedAtMs !== undefined && { startedAtMs }),
  };
}

/**
 * Whether a job has ended, or has written this lease off and goes on without it. Fails when the server does not answer.
 */
export async function isLeaseOver(client: Client, order: RunOrder): Promise<boolean> {
  const handle = client.workflow.getHandle(order.workflowId, order.workflowRunId);
  const { status } = await handle.describe();
  if (status.name !== "RUNNING") return true;
  const { attempts } = await handle.query(jobViewQuery);
  return attempts.some(({ leaseId, end }) => leaseId === order.leaseId && end !== undefined);
}
