/**
 * @file Interference from outside the product: jobs are terminated, cancelled and reset, also at the instant of the grant.
 *
 * The instant is seen in the job's own history, by a call that returns as soon as an event is added.
 */

import { randomUUID } from "node:crypto";
import type { Client } from "@temporalio/client";
import { grantSignal } from "../../protocol/messages.ts";
import { insist } from "./insistence.ts";
import type { Site } from "./site.ts";
import type { Meddling, StormJob } from "./workload.ts";

/** Does it and notes it on the job; false when the job had ended before. */
export async function meddle(
  { client }: Site,
  job: StormJob,
  { how, share }: { readonly how: Meddling; readonly share: number },
): Promise<boolean> {
  const handle = client.workflow.getHandle(job.id);
  // Noted first: what is asked for may happen although its answer is lost.
  job.meddling = { how, isCertain: false, atMs: Date.now() };
  const done = await insist(client, async () => {
    switch (how) {
      case "terminated":
        await handle.terminate("the storm");
        return true;
      case "cancelled":
        await handle.cancel();
        return true;
      case "reset":
        return await reset(client, job.id, share);
    }
  });
  job.meddling = { how, isCertain: done === true, atMs: Date.now() };
  return done === true;
}

/** To the end of any of its workflow tasks so far. */
async function reset(client: Client, workflowId: string, share: number): Promise<boolean> {
  const { namespace } = client.options;
  const { runId, status } = await client.workflow.getHandle(workflowId).describe();
  if (status.name !== "RUNNING") return false;
  const { events } = await client.workflow.getHandle(workflowId, runId).fetchHistory();
  const tasks = (events ?? []).flatMap(({ eventId, workflowTaskCompletedEventAttributes }) =>
    workflowTaskCompletedEventAttributes ? [eventId] : [],
  );
  const task = tasks[Math.floor(share * tasks.length)];
  if (task === undefined || task === null) return false;
  await client.workflowService.resetWorkflowExecution({
    namespace,
    workflowExecution: { workflowId, runId },
    reason: "the storm",
    workflowTaskFinishEventId: task,
    requestId: randomUUID(),
  });
  return true;
}

const WATCH_MS = 60_000;
const CALL_MS = 20_000;

/** Resolves at the moment at which the job's first grant is in its history; false when none comes. */
export async function untilGranted({ client }: Site, workflowId: string): Promise<boolean> {
  let nextPageToken: Uint8Array | undefined;
  for (const untilMs = performance.now() + WATCH_MS; performance.now() < untilMs;) {
    const token = nextPageToken;
    const page = await client
      .withDeadline(Date.now() + CALL_MS, () =>
        client.workflowService.getWorkflowExecutionHistory({
          namespace: client.options.namespace,
          execution: { workflowId },
          waitNewEvent: true,
          ...(token !== undefined && { nextPageToken: token }),
        }),
      )
      .catch(() => undefined);
    if (page === undefined) {
      await new Promise((resolve) => setTimeout(resolve, 200));
      continue;
    }
    const events = page.history?.events ?? [];
    if (
      events.some(
        (event) => event.workflowExecutionSignaledEventAttributes?.signalName === grantSignal.name,
      )
    ) {
      return true;
    }
    // Without a token the history is at its end: the job is closed.
    const { nextPageToken: next } = page;
    if (!next || next.length === 0) return false;
    nextPageToken = next;
  }
  return false;
}
