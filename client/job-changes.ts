/**
 * @file Who started, changed and ended a job, and which hosts refused what it asked, by the history of its workflow: what reached it past the submit service, too.
 *
 * The server keeps the identity that each client gives itself, which is that client's own word, and who that was by its own word where it has an
 * authorizer that tells. Only the job's last run is read: a job that continued as new carries on its work, not its messages.
 */

import type { Client } from "@temporalio/client";
import { decodeFromPayloadsAtIndex } from "@temporalio/common/lib/internal-non-workflow/index.js";
import { claimedIn, provenSigner } from "../access/job-proof.ts";
import type { JobId } from "../domain/values/ids.ts";
import type { RunReport } from "../protocol/agent-contract.ts";
import { killSignal } from "../protocol/messages.ts";
import { PROOF_MEMO } from "../protocol/signed-job.ts";
import { asked } from "./server-error.ts";

export interface JobChange {
  readonly atMs: number;
  /** As in `start`, `cancel`, `kill`, `terminate`, the name of an Update, or the order that a host refused. */
  readonly act: string;
  /** The server's own word on the sender; absent where it has none. */
  readonly principal?: string;
  /** The sender's word. */
  readonly identity: string;
  /** Of a start: by whose key the job was signed. The name is the signer's own word; the signature fits the key. */
  readonly signer?: { readonly name: string; readonly publicKey: string };
  /** Why a host refused the order; its agent is the sender. Absent otherwise. */
  readonly why?: string;
}

const REFUSED = "NOT_ALLOWED";
const RUN = "run";

export async function jobChanges(client: Client, jobId: JobId): Promise<readonly JobChange[]> {
  const { events } = await asked(client, `job ${jobId}`, () =>
    client.workflow.getHandle(jobId).fetchHistory(),
  );
  const changes: JobChange[] = [];
  /** Names of activities, by the numbers of the events that scheduled them. */
  const activities = new Map<string, string>();
  for (const event of events ?? []) {
    const scheduled = event.activityTaskScheduledEventAttributes;
    if (scheduled) activities.set(String(event.eventId), scheduled.activityType?.name ?? "");
    const found = changeIn(event) ?? (await refusalIn(client, event, activities));
    if (found === undefined) continue;
    const signer = await signerIn(client, event, jobId);
    const seconds = Number(event.eventTime?.seconds ?? 0);
    const name = event.principal?.name ?? "";
    changes.push({
      ...found,
      atMs: seconds * 1_000 + Math.floor((event.eventTime?.nanos ?? 0) / 1e6),
      ...(name !== "" && { principal: name }),
      ...(signer !== undefined && { signer }),
    });
  }
  return changes;
}

/** What a host has not let the job start, by the report that its agent gave instead. */
async function refusalIn(
  client: Client,
  event: HistoryEvent,
  activities: ReadonlyMap<string, string>,
): Promise<Omit<JobChange, "atMs"> | undefined> {
  const ended = event.activityTaskCompletedEventAttributes;
  const name = activities.get(String(ended?.scheduledEventId));
  if (!ended || name !== RUN) return undefined;
  const { loadedDataConverter } = client.options;
  const payloads = ended.result?.payloads;
  const report = await decodeFromPayloadsAtIndex<RunReport>(loadedDataConverter, 0, payloads);
  if (report.cause?.code !== REFUSED) return undefined;
  return { act: `${name} refused`, identity: ended.identity ?? "", why: report.cause.message };
}

/** Undefined for another event than a start, for a job without a signature, and for a signature that is forged or another job's. */
async function signerIn(
  client: Client,
  event: HistoryEvent,
  jobId: JobId,
): Promise<JobChange["signer"]> {
  const memo = event.workflowExecutionStartedEventAttributes?.memo?.fields?.[PROOF_MEMO];
  if (!memo) return undefined;
  const { loadedDataConverter } = client.options;
  let proof: unknown;
  try {
    proof = await decodeFromPayloadsAtIndex(loadedDataConverter, 0, [memo]);
  } catch {
    // Whoever starts a workflow may write anything there, and what else its history says is to be seen all the same.
    return undefined;
  }
  const claimed = claimedIn(proof);
  return claimed && provenSigner(proof, { jobId, keys: [claimed.publicKey] });
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
