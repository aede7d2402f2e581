/**
 * @file Tickets of the fleet's worker: for the leases that it delivers, and for the sweeps that it starts.
 *
 * The fleet that a ticket names is the workflow that asked for the activity, by the server's word. So a workflow of another name gets tickets
 * that no agent of this fleet takes.
 */

import { Context } from "@temporalio/activity";
import type { WorkflowHandle } from "@temporalio/client";
import type { KeyObject } from "node:crypto";
import { claimedIn, startingSignature } from "../access/job-proof.ts";
import { signTicket, TICKET_MS } from "../access/ticket.ts";
import type { Lease } from "../domain/lease/lease.ts";
import type { SweepInput } from "../protocol/messages.ts";
import { proofsIn } from "../protocol/signed-job.ts";
import type { UsedSignatures } from "./used-signatures.ts";

/** What a job's signature says of it, and the start that it has served first, where that is known; nothing when it has none. */
export type Submitted =
  (NonNullable<ReturnType<typeof claimedIn>> & { readonly start?: string }) | undefined;

export interface TicketPrinter {
  launch(lease: Lease, by: Submitted): string;
  stop(sweep: SweepInput): string;
}

export function ticketPrinter(key: () => KeyObject, nowMs: () => number = Date.now): TicketPrinter {
  const fleet = (): string => Context.current().info.workflowExecution?.workflowId ?? "";
  return {
    launch: ({ jobId, id, token, gpus }, by) =>
      signTicket(
        {
          kind: "launch",
          fleet: fleet(),
          job: jobId,
          lease: id,
          token,
          gpus: gpus.map(({ host, mask }) => [host, mask]),
          ...(by !== undefined && { hash: by.hash, by: by.publicKey, start: by.start }),
          until: nowMs() + TICKET_MS,
        },
        key(),
      ),
    stop: ({ jobId, lease, token }) =>
      signTicket({ kind: "stop", fleet: fleet(), job: jobId, lease, token }, key()),
  };
}

/**
 * From the memo with which the job was started, or from that of its last amendment. Of all signatures in it: whoever starts a workflow writes its memo, and
 * a host takes any of them.
 */
export async function submittedBy(job: WorkflowHandle, used: UsedSignatures): Promise<Submitted> {
  const { memo = {}, raw } = await job.describe();
  const proofs = proofsIn(memo);
  const claimed = claimedIn(proofs.at(-1));
  if (claimed === undefined) return undefined;
  const own = raw.workflowExecutionInfo?.firstRunId;
  if (!own) return claimed;
  const starts = proofs.flatMap((proof) => {
    const signature = startingSignature(proof, job.workflowId);
    return signature === undefined ? [] : [used.firstStart(signature, own)];
  });
  return { ...claimed, start: starts.find((start) => start !== own) ?? own };
}
