/**
 * @file Activities of the fleet's worker: `decide` in a thread with a deadline, and delivery of grants, orders and notes to
 * jobs.
 */

import { type Client, type WorkflowHandle } from "@temporalio/client";
import { log } from "@temporalio/activity";
import type { WeightsKeeper } from "../domain/lease/kept-weights.ts";
import type { Lease } from "../domain/lease/lease.ts";
import type { JobId, LeaseId, TenantId } from "../domain/values/ids.ts";
import { OWN_PRIORITY } from "../protocol/fair-tasks.ts";
import {
  fencedSignal,
  grantSignal,
  grantsSignal,
  JOB_TASK_QUEUE,
  pendingSignal,
  preemptSignal,
  SWEEP_WORKFLOW,
  sweepWorkflowId,
  type Grant,
  type LobbyNews,
  type SweepInput,
} from "../protocol/messages.ts";
import { audit, recover, type RecoveryPorts } from "./audit.ts";
import { beginAnew } from "./begin-anew.ts";
import { askOpenRun, isGone } from "./open-run.ts";
import { each } from "../lib/each.ts";
import { tellJob } from "./job-words.ts";
import { repair } from "./repair.ts";
import { submittedBy, type TicketPrinter } from "./tickets.ts";
import type { UsedSignatures } from "./used-signatures.ts";
import type {
  Decision,
  DecideQuestion,
  Delivery,
  EvictionOrder,
  FleetActivities,
  Loss,
  OutsideReason,
  PendingNote,
} from "../protocol/control-contract.ts";
import type { WordActivities } from "../protocol/word-proof.ts";
import type { Decider } from "./decider.ts";
import { tellLobby, type LobbyPorts } from "./lobby-post.ts";
import { messagesOver, runsLearner, stepsOver, type KeptIn } from "./learned-runs.ts";
import { signedFleets } from "./signed-fleets.ts";
import { estimateFleetStarts } from "./start-estimator.ts";

export interface FleetPorts {
  readonly client: Client;
  readonly decider: Decider;
  readonly lobbyStore: RecoveryPorts["lobbyStore"];
  readonly tickets: TicketPrinter;
  readonly signatures: UsedSignatures;
  readonly words: WordActivities;
  /** What the hosts of a cluster keep of served models' weights. */
  readonly keepersOf: KeptIn<WeightsKeeper>;
}

export function createFleetActivities({
  client,
  decider,
  lobbyStore,
  tickets,
  signatures,
  words,
  keepersOf,
}: FleetPorts): FleetActivities {
  const askedBy = signedFleets(client);
  const learn = runsLearner({
    stepsOf: stepsOver(client),
    messagesOf: messagesOver(client),
    keepersOf,
    decider,
    nowMs: Date.now,
  });
  const decideNext = async (question: DecideQuestion): Promise<Decision> => {
    const decision = await decider.decideNext(question);
    const told = learn((question.kind === "feed" ? question.feed : question.snapshot).fleet);
    if (told === undefined || decision.kind !== "plan") return decision;
    const again = (await told) ? await decider.decideAgain(question) : undefined;
    return again?.kind === "plan" ? again : decision;
  };
  return {
    decide: (ledger, nowMs) => decider.decide(ledger, nowMs),
    decideNext,
    async checkAndDecide(list, values, ahead) {
      const verdicts = await words.checkWords(list, values);
      if (verdicts.refused.length > 0) return { verdicts };
      return { verdicts, decision: await decideNext({ kind: "feed", ...ahead }) };
    },
    async deliver({ grants, pending, losses = [], sweeps = [], evictions, lobbies, outside = [] }) {
      const accepted: LeaseId[] = [];
      const gone: LeaseId[] = [];
      await each(parcelsOf(grants), async (parcel) => {
        const end = await offer({ client, tickets, signatures }, parcel);
        const ids = parcel.map(({ lease }) => lease.id);
        if (end === "accepted") accepted.push(...ids);
        if (end === "gone") gone.push(...ids);
      });
      await tellAll(client, pending);
      await each(losses, (loss) => tellLoss(client, loss));
      await each(sweeps, (order) => startSweep(client, { ...order, ticket: tickets.stop(order) }));
      const told = await tellLobbies({ client, askedBy }, lobbies ?? []);
      await tellAll(client, notesOf(lobbies ?? [], outside));
      return {
        accepted: accepted.sort(),
        gone: gone.sort(),
        ...(evictions !== undefined && { evictions: await sendEvictions(client, evictions) }),
        ...(lobbies !== undefined && { lobbies: told }),
      };
    },
    audit: (order) => audit(client, order),
    estimateStarts: (order) => estimateFleetStarts(client, order),
    recover: (order) => recover({ client, lobbyStore }, order),
    repair: (order) => repair({ client, tickets }, order),
    beginAnew: (input) => beginAnew(client, input),
  };
}

/** Size of one delivery, which arrives whole or not at all, well below the limit of a signal. */
const MAX_PARCEL = 64;

/** A gang's grant is delivered alone; grants of a job array are delivered together, as one event of its history. */
function parcelsOf(grants: readonly Delivery[]): readonly (readonly Delivery[])[] {
  const parcels: Delivery[][] = [];
  const open = new Map<string, Delivery[]>();
  for (const delivery of grants) {
    const { jobId, runId, slots } = delivery.lease;
    const key = `${jobId} ${runId}`;
    const former = slots === undefined ? undefined : open.get(key);
    if (former !== undefined && former.length < MAX_PARCEL) former.push(delivery);
    else {
      const parcel = [delivery];
      parcels.push(parcel);
      open.set(key, parcel);
    }
  }
  return parcels;
}

const grantOf = ({ lease, agents, reason, predictedGBs, bandwidth }: Delivery): Grant => ({
  seq: lease.seq,
  lease,
  agents,
  reason,
  ...(predictedGBs !== undefined && { predictedGBs }),
  ...(bandwidth !== undefined && { bandwidth }),
});

type GrantPorts = Pick<FleetPorts, "client" | "tickets" | "signatures">;

/**
 * `failed`: the result is unknown, so the grants stay in the outbox and are sent again. A job that was reset to a task after its request has asked, by its
 * history, and asks no more: its next run is asked what it wants.
 */
async function offer(
  ports: GrantPorts,
  parcel: readonly Delivery[],
): Promise<"accepted" | "gone" | "failed"> {
  const [first] = parcel;
  if (first === undefined) return "accepted";
  const { lease } = first;
  try {
    if (await isTaken(ports, parcel, lease)) return "accepted";
    await askOpenRun(ports.client, lease.jobId);
    return "gone";
  } catch (error) {
    log.warn("a grant could not be delivered", {
      lease: lease.id,
      jobId: lease.jobId,
      error: String(error),
    });
    return "failed";
  }
}

/** Whether the run is there; a job with an invalid id (a malformed request) counts as gone, like a closed one. */
async function isTaken(
  { client, tickets, signatures }: GrantPorts,
  parcel: readonly Delivery[],
  lease: Lease,
): Promise<boolean> {
  try {
    const run = handleOf(client, lease);
    const by = await submittedBy(run, signatures);
    const grantTo = (delivery: Delivery): Grant => ({
      ...grantOf(delivery),
      ticket: tickets.launch(delivery.lease, by),
    });
    const grants = parcel.map(grantTo);
    if (lease.slots === undefined) await tellJob({ client, run }, grantSignal, grants[0]);
    else await tellJob({ client, run }, grantsSignal, grants);
    return true;
  } catch (error) {
    if (isGone(error)) return false;
    throw error;
  }
}

/** An undelivered order is in neither list and is sent again. */
async function sendEvictions(
  client: Client,
  evictions: readonly EvictionOrder[],
): Promise<{ readonly sent: readonly LeaseId[]; readonly gone: readonly LeaseId[] }> {
  const sent: LeaseId[] = [];
  const gone: LeaseId[] = [];
  /** By job: an array may lose many leases at once. */
  const asked = new Map<string, Promise<void>>();
  await each(evictions, async ({ order, ...job }) => {
    try {
      if (await isPreempting(client, job, order)) sent.push(order.lease);
      else {
        const asking = asked.get(job.jobId) ?? askOpenRun(client, job.jobId);
        asked.set(job.jobId, asking);
        await asking;
        gone.push(order.lease);
      }
    } catch (error) {
      log.warn("a preemption order could not be delivered to a job", {
        ...job,
        error: String(error),
      });
    }
  });
  return { sent: sent.sort(), gone: gone.sort() };
}

/** Whether the run is there. */
async function isPreempting(
  client: Client,
  job: Pick<EvictionOrder, "jobId" | "runId">,
  order: EvictionOrder["order"],
): Promise<boolean> {
  try {
    await tellJob({ client, run: handleOf(client, job) }, preemptSignal, order);
    return true;
  } catch (error) {
    if (isGone(error)) return false;
    throw error;
  }
}

/** Opens lobbies that are not there. Returns those that have their news. */
async function tellLobbies(
  ports: LobbyPorts,
  lobbies: readonly LobbyNews[],
): Promise<readonly TenantId[]> {
  const told: TenantId[] = [];
  await each(lobbies, async (news) => {
    const { fleet, tenant } = news;
    try {
      await tellLobby(ports, news);
      told.push(tenant);
    } catch (error) {
      log.warn("a lobby could not be told", { fleet, tenant, error: String(error) });
    }
  });
  return told.sort();
}

/** Why the jobs of these rows wait, to each of them. */
function notesOf(
  lobbies: readonly LobbyNews[],
  outside: readonly OutsideReason[],
): readonly PendingNote[] {
  const reasons = new Map(outside.map(({ tenant, reason }) => [tenant, reason] as const));
  return lobbies.flatMap(({ tenant, rows }) => {
    const reason = reasons.get(tenant);
    if (reason === undefined) return [];
    return rows.map(({ jobId, runId, seq }) => ({ jobId, runId, seq, reason }));
  });
}

/**
 * An undelivered note is not repeated: the fleet's `explain` has the same facts. One line of the log says so for all of them: in a flood of requests
 * there are notes for thousands of jobs that nobody has started.
 */
async function tellAll(client: Client, notes: readonly PendingNote[]): Promise<void> {
  const undelivered: { readonly jobId: JobId; readonly error: unknown }[] = [];
  await each(notes, async ({ jobId, runId, seq, reason }) => {
    try {
      await handleOf(client, { jobId, runId }).signal(pendingSignal, { seq, reason });
    } catch (error) {
      undelivered.push({ jobId, error });
    }
  });
  const [first] = undelivered;
  if (first === undefined) return;
  const { jobId, error } = first;
  log.info("pending notes could not be delivered to their jobs", {
    count: undelivered.length,
    jobId,
    error: String(error),
  });
}

/** Repeated at the next audit if it is lost. */
async function tellLoss(client: Client, loss: Loss): Promise<void> {
  const { lease, hosts } = loss;
  try {
    await tellJob({ client, run: handleOf(client, loss) }, fencedSignal, { lease, hosts });
  } catch (error) {
    log.info("a lost lease could not be reported to a job", { lease, error: String(error) });
  }
}

/** One sweep for each lease, even when it is requested several times. */
async function startSweep(client: Client, order: SweepInput): Promise<void> {
  try {
    await client.workflow.start(SWEEP_WORKFLOW, {
      workflowId: sweepWorkflowId(order.fleet, order.lease),
      taskQueue: JOB_TASK_QUEUE,
      priority: OWN_PRIORITY,
      args: [order],
      workflowIdConflictPolicy: "USE_EXISTING",
      staticSummary: `what ${order.jobId} left behind`,
    });
  } catch (error) {
    log.warn("a sweep could not be started", { lease: order.lease, error: String(error) });
  }
}

const handleOf = (
  client: Client,
  { jobId, runId }: { readonly jobId: string; readonly runId: string },
): WorkflowHandle => client.workflow.getHandle(jobId, runId);
