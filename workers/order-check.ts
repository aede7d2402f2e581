/**
 * @file Who may give an agent orders: the workflow that an order comes from, by the server's word, and a ticket of the fleet or a reader's signature.
 *
 * A job stops, by its id, what this host has started for it. What the host does not know, and what a sweep stops, needs the fleet's ticket:
 * a stop notes its token for good, so a forged one would fence the host. A log session shows in its memo who reads.
 */

import { Context } from "@temporalio/activity";
import type { Client } from "@temporalio/client";
import type { HostTrust } from "../access/host-trust.ts";
import { checkJobProof } from "../access/job-proof.ts";
import { checkTicket, submitterIn, ticketMismatch, type TicketUse } from "../access/ticket.ts";
import type { OrderCheck } from "../agent/ports/order-check.ts";
import { failure } from "../agent/system/failures.ts";
import type { LeaseOrder, RunActivities } from "../protocol/agent-contract.ts";
import { fleetWorkflowId } from "../protocol/messages.ts";
import { PROOF_AGE_MS, PROOF_MEMO, READER_CONTENT } from "../protocol/signed-job.ts";
import { memoOf } from "./workflow-memo.ts";

export interface HostAccess {
  readonly fleet: string;
  readonly trust: HostTrust;
  /** Public keys of the fleet, as they are now. */
  readonly believed: () => readonly string[];
}

/** What a ticket must say for this order. */
export const ticketUse = (
  { jobId: job, leaseId: lease, token, host }: LeaseOrder,
  { fleet }: HostAccess,
): TicketUse => ({ fleet: fleetWorkflowId(fleet), job, lease, token, host });

/** Readers of sessions that are known, so that a session is looked at once. */
const MOST_SESSIONS = 1_000;

export function orderCheck(client: Client, access: HostAccess): OrderCheck {
  const readers = new Map<string, string>();
  return {
    lease: (order, stored) => {
      const sender = senderId();
      const isJobs = stored !== undefined && stored.workflowId === sender;
      if (isJobs && stored.token === order.token && stored.jobId === order.jobId) return undefined;
      return ticketRefusal(order, { access, sender });
    },
    logs: async (query, stored) => {
      const { trust } = access;
      if (trust.kind === "namespace") return undefined;
      const session = Context.current().info.workflowExecution;
      const runId = session?.runId ?? "";
      let reader = readers.get(runId);
      if (reader === undefined) {
        const { memo } = await memoOf(client, { workflowId: session?.workflowId ?? "", runId });
        const check = checkJobProof(memo[PROOF_MEMO], {
          jobId: session?.workflowId ?? "",
          content: READER_CONTENT,
        });
        if (check.kind === "refused") return `who reads is not known: ${check.reason}`;
        if (Math.abs(Date.now() - check.by.signedAtMs) > PROOF_AGE_MS)
          return "its reader has signed it too long ago, or clocks differ";
        reader = check.by.publicKey;
        if (readers.size >= MOST_SESSIONS) readers.clear();
        readers.set(runId, reader);
      }
      if (trust.kind === "own-user" && reader === trust.publicKey) return undefined;
      if (trust.kind === "policy" && trust.policy.operators.includes(reader)) return undefined;
      if (stored?.ticket !== undefined && submitterIn(stored.ticket) === reader) return undefined;
      return `only the submitter of ${query.jobId} and this host's operators read its output, and ${reader} is neither`;
    },
  };
}

function ticketRefusal(
  order: LeaseOrder,
  { access, sender }: { readonly access: HostAccess; readonly sender: string },
): string | undefined {
  const check = checkTicket(order.ticket, access.believed());
  if (check.kind !== "good") return check.reason;
  const { ticket } = check;
  const mismatch = ticketMismatch(ticket, ticketUse(order, access));
  if (mismatch !== undefined) return mismatch;
  // Everybody may carry a stop ticket to the host: the fleet wants the lease ended.
  return ticket.kind === "stop" || sender === ticket.job
    ? undefined
    : `the order comes from ${sender}, not from its job`;
}

/**
 * `run` for the job's own workflow alone, by the server's word. Asked before the folder of the launch is looked for: a launch that runs, or is over, is only watched and
 * reported, with the last lines of its output, whoever has submitted it.
 */
export const onlyFromItsJob = ({ run }: RunActivities): RunActivities => ({
  run: async (order) => {
    const found = senderId();
    if (found !== order.jobId || found !== order.workflowId)
      throw failure("NOT_ALLOWED", `the order comes from ${found}, not from its job`);
    return await run(order);
  },
});

/** The activities of one sender alone, by the id of its workflow. */
export function onlyFrom<Activities extends object>(
  sender: string,
  activities: Activities,
): Activities {
  const guarded = Object.entries(activities).map(([name, call]) => [
    name,
    (...args: readonly unknown[]): unknown => {
      const found = senderId();
      if (found !== sender)
        throw failure("NOT_ALLOWED", `${name} is for ${sender}, and ${found} has asked for it`);
      return (call as (...given: readonly unknown[]) => unknown)(...args); // a record of functions
    },
  ]);
  return Object.fromEntries(guarded) as Activities; // the same names
}

const senderId = (): string =>
  Context.current().info.workflowExecution?.workflowId ?? "no workflow";
