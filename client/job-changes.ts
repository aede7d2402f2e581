/**
 * @file Who started, changed and ended a job, by the history of its workflow: what reached it past the submit service, too.
 *
 * The server keeps the identity that each client gives itself, which is that client's own word, and who that was by its own word where it has an
 * authorizer that tells. Only the job's last run is read: a job that continued as new carries on its work, not its messages.
 */

import type { Client } from "@temporalio/client";
import type { JobId } from "../domain/values/ids.ts";
import { killSignal } from "../protocol/messages.ts";
import { asked } from "./server-error.ts";

export interface JobChange {
  readonly atMs: number;
  /** As in `start`, `cancel`, `kill`, `terminate`, or the name of an Update. */
  readonly act: string;
  /** The server's own word on the sender; absent where it has none. */
  readonly principal?: string;
  /** The sender's word. */
  readonly identity: string;
}

export async function jobChanges(client: Client, jobId: JobId): Promise<readonly JobChange[]> {
  const { events } = await asked(client, `job ${jobId}`, () =>
    client.workflow.getHandle(jobId).fetchHistory(),
  );
  return (events ?? []).flatMap((event): JobChange[] => {
    const found = changeIn(event);
    if (found === undefined) return [];
    const seconds = Number(event.eventTime?.seconds ?? 0);
    const name = event.principal?.name ?? "";
    return [
      {
        ...found,
        atMs: seconds * 1_000 + Math.floor((event.eventTime?.nanos ?? 0) / 1e6),
        ...(name !== "" && { principal: name }),
      },
    ];
  });
}

type HistoryEvent = NonNullable<
  Awaited<ReturnType<ReturnType<Client["workflow"]["getHandle"]>["fetchHistory"]>>["events"]
>[number];

function changeIn(event: HistoryEvent): Pick<JobChange, "act" | "identity"> | undefined {
  const started = event.workflowExecutionStartedEventAttributes;
  if (started) return { act: "start", identity: started.identity ?? "" };
  const cancelled = event.workflowExecutionCancelRequestedEventAttributes;
  if (cancelled) return { act: "cancel", identity: cancelled.identity ?? "" };
  const ended = event.workflowExecutionTerminatedEventAttributes;
  if (ended) return { act: "terminate", identity: ended.identity ?? "" };
  const signalled = event.workflowExecutionSignaledEventAttributes;
  // Other signals are the fleet's own words.
  if (signalled?.signalName === killSignal.name)
    return { act: "kill", identity: signalled.identity ?? "" };
  const update = event.workflowExecutionUpdateAcceptedEventAttributes?.acceptedRequest;
  if (!update) return undefined;
  return { act: update.input?.name ?? "update", identity: update.meta?.identity ?? "" };
}
