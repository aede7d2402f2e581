/**
 * @file Who may give an agent orders: the workflow that an order comes from, by the server's word, and a ticket of the fleet or a reader's signature.
 *
 * A job stops, by its id, what this host has started for it. What the host does not know, and what a sweep stops, needs the fleet's ticket:
 * a stop notes its token for good, so a forged one would fence the host. A log session shows in its memo who reads.
 *
 * The id of a workflow that has ended is free for everybody, so the id is not enough where the host has stored an order: the sender's run must come from the same
 * start as the run that has given it. Cost: one call to the server, two at most, for an order of another run than the stored one's.
 */

import { Context } from "@temporalio/activity";
import type { Client } from "@temporalio/client";
import type { HostTrust } from "../access/host-trust.ts";
import { checkJobProof } from "../access/job-proof.ts";
import { checkTicket, submitterIn, ticketMismatch, type TicketUse } from "../access/ticket.ts";
import type { OrderCheck } from "../agent/ports/order-check.ts";
import { newestOrder, type AgentHost } from "../agent/runs/agent-host.ts";
import { failure } from "../agent/system/failures.ts";
import type { HostId } from "../domain/values/ids.ts";
import type { LeaseOrder, RunActivities, RunOrder } from "../protocol/agent-contract.ts";
import { fleetWorkflowId, jobOfLogSession } from "../protocol/messages.ts";
import { PROOF_AGE_MS, PROOF_MEMO, READER_CONTENT } from "../protocol/signed-job.ts";
import { memoOf, startOf, type WorkflowRun } from "./workflow-memo.ts";

export interface HostAccess {
  readonly fleet: string;
  /** As it is now. */
  readonly trust: () => HostTrust;
  /** Public keys of the fleet, as they are now. */
  readonly believed: () => readonly string[];
}

/** What a ticket must say for this order. */
export const ticketUse = (
  { jobId: job, leaseId: lease, token, host }: LeaseOrder,
  { fleet }: HostAccess,
): TicketUse => ({ fleet: fleetWorkflowId(fleet), job, lease, token, host });

/** Sessions whose readers are known, so that each is looked at once and a signature serves no later workflow of the same id. Nobody else fills this. */
const MOST_SESSIONS = 10_000;

export function orderCheck(client: Client, access: HostAccess): OrderCheck {
  const readers = new Map<string, { readonly runId: string; readonly reader: Reader }>();
  return {
    lease: async (order, stored) => {
      const sender = senderId();
      const known = stored?.jobId === order.jobId ? stored : undefined;
      const isJobs = known !== undefined && (await isSameWorkflow(client, known));
      if (isJobs && known.token === order.token) return undefined;
      return ticketRefusal(order, { access, sender, isLater: known !== undefined && !isJobs });
    },
    logs: async (query, stored) => {
      const trust = access.trust();
      if (trust.kind === "namespace") return undefined;
      const session = Context.current().info.workflowExecution ?? { workflowId: "", runId: "" };
      if (jobOfLogSession(session.workflowId) !== query.jobId)
        return `its session is ${session.workflowId}, which is none for this job`;
      const known = readers.get(session.workflowId);
      if (known !== undefined && !(await goesOn(client, session, known.runId)))
        return "its session is over, and its signature is good for that one alone";
      const reader = known?.reader ?? (await readerOf(client, session));
      if ("refused" in reader) return reader.refused;
      const { key } = reader;
      if (!readersOf(trust, stored).includes(key))
        return key === submitterOf(stored)
          ? `this host starts no jobs of ${key} any more, so it shows it no output of ${query.jobId}`
          : `only the submitter of ${query.jobId} and this host's operators read its output, and ${key} is neither`;
      readers.set(session.workflowId, { runId: session.runId, reader });
      const [oldest] = readers.keys();
      if (readers.size > MOST_SESSIONS && oldest !== undefined) readers.delete(oldest);
      return undefined;
    },
  };
}

/** The keys for which a host shows the output of a run, or opens a session with it. A submitter who is taken out of the policy has no run there any more. */
export function readersOf(
  trust: Exclude<HostTrust, { readonly kind: "namespace" }>,
  stored: RunOrder | undefined,
): readonly string[] {
  if (trust.kind === "own-user") return [trust.publicKey];
  const { operators, submitters } = trust.policy;
  const submitter = submitterOf(stored);
  return submitters.some(({ key }) => key === submitter) && submitter !== undefined
    ? [...operators, submitter]
    : operators;
}

const submitterOf = (stored: RunOrder | undefined): string | undefined =>
  stored?.ticket === undefined ? undefined : submitterIn(stored.ticket);

interface Reader {
  /** The public key. */
  readonly key: string;
}

/** Who reads, by the signature in the memo of its session. */
async function readerOf(
  client: Client,
  session: WorkflowRun,
): Promise<Reader | { readonly refused: string }> {
  const { memo } = await memoOf(client, session);
  const check = checkJobProof(memo[PROOF_MEMO], {
    jobId: session.workflowId,
    content: READER_CONTENT,
  });
  if (check.kind === "refused") return { refused: `who reads is not known: ${check.reason}` };
  const isOld = Math.abs(Date.now() - check.by.signedAtMs) > PROOF_AGE_MS;
  if (isOld) return { refused: "its reader has signed it too long ago, or clocks differ" };
  return { key: check.by.publicKey };
}

function ticketRefusal(
  order: LeaseOrder,
  {
    access,
    sender,
    isLater,
  }: {
    readonly access: HostAccess;
    readonly sender: string;
    /** Another workflow has given the order that is stored. */
    readonly isLater: boolean;
  },
): string | undefined {
  const check = checkTicket(order.ticket, access.believed());
  if (check.kind !== "good") return check.reason;
  const { ticket } = check;
  const mismatch = ticketMismatch(ticket, ticketUse(order, access));
  if (mismatch !== undefined) return mismatch;
  // Everybody may carry a stop ticket to the host: the fleet wants the lease ended.
  if (ticket.kind === "stop") return undefined;
  if (sender !== ticket.job) return `the order comes from ${sender}, not from its job`;
  // Who reads the history of a job that has ended has its launch ticket, too.
  return isLater ? laterText(ticket.job) : undefined;
}

const laterText = (job: string): string =>
  `the order comes from a later workflow with the id of ${job}, not from its job`;

/**
 * `run` for the job's own workflow alone, by the server's word. Asked before the folder of the launch is looked for: a launch that runs, or is over, is only watched and
 * reported, with the last lines of its output, whoever has submitted it.
 */
export const onlyFromItsJob = (
  { run }: RunActivities,
  { client, hosts }: { readonly client: Client; readonly hosts: ReadonlyMap<HostId, AgentHost> },
): RunActivities => ({
  run: async (order) => {
    const found = senderId();
    if (found !== order.jobId || found !== order.workflowId)
      throw failure("NOT_ALLOWED", `the order comes from ${found}, not from its job`);
    const host = hosts.get(order.host);
    const stored = host && newestOrder(host, order.leaseId);
    if (stored?.jobId === order.jobId && !(await isSameWorkflow(client, stored)))
      throw failure("NOT_ALLOWED", laterText(order.jobId));
    return await run(order);
  },
});

/** Whether the sender is the workflow that has given the order, also after it was continued or reset. */
export async function isSameWorkflow(
  client: Client,
  { workflowId, workflowRunId }: RunOrder,
): Promise<boolean> {
  const sender = Context.current().info.workflowExecution;
  if (sender?.workflowId !== workflowId) return false;
  if (sender.runId === workflowRunId) return true;
  const start = await startOf(client, sender);
  if (start === undefined) return false;
  if (start.firstRunId === workflowRunId) return true;
  const given = await startOf(client, { workflowId, runId: workflowRunId });
  return start.firstRunId === given?.firstRunId;
}

/** Whether the session is of this run, or continues it, as one does after many reads. Not one that was begun again, by a start or a reset. */
async function goesOn(client: Client, session: WorkflowRun, runId: string): Promise<boolean> {
  return session.runId === runId || (await startOf(client, session))?.continuedRunId === runId;
}

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
