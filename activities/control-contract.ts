/** @file Activities of the control plane: what the job and fleet workflows ask of their own workers. Types, and one version number. */

import type { BandwidthNote } from "../domain/bandwidth-note.ts";
import type { FailureCode } from "../domain/codes.ts";
import type { JobSpec } from "../domain/job.ts";
import type { HostId, JobId, LeaseId, RunId } from "../domain/ids.ts";
import type { Lease, RequestKey } from "../domain/lease.ts";
import type { OutfitPart } from "../domain/outfit.ts";
import type { PendingReason } from "../domain/pending.ts";
import type { Plan } from "../domain/plan.ts";
import type { StartEstimate } from "../scheduling/foreseen.ts";
import type { AgentAddress, InboxEntry } from "../scheduling/ledger.ts";
import type { PackedLedger } from "../scheduling/ledger-codec.ts";
import type { PreemptOrder, SilenceTerms, SweepInput } from "../workflows/messages.ts";

/** Local activities of the jobs' workers. */
export interface JobActivities {
  /**
   * Reads the job file, and, unless the job is held, hands its first request to the fleet. The answer also names the rules
   * (`JOB_RULES`) under which this run of the workflow goes: it is in history, so a later version can tell old runs from new ones.
   */
  admit(file: unknown, entry: JobEntry): Promise<Admission>;
  /** Hands an entry to the fleet's inbox together with those of other jobs; returns when the fleet has it. */
  tellFleet(fleetWorkflowId: string, entry: InboxEntry): Promise<Told>;
  /** Where a host's agent is now; null when none said hello. */
  findHost(fleetWorkflowId: string, host: HostId): Promise<AgentAddress | null>;
  /** What agents of a cluster are held to; the defaults when the fleet has no such cluster. Not a local one: it may wait for the fleet. */
  silenceTerms(fleetWorkflowId: string, cluster: string): Promise<SilenceTerms>;
  /** Whether the lease is in the fleet's ledger, be it only that hosts have yet to confirm its end. */
  hasLease(fleetWorkflowId: string, lease: LeaseId): Promise<boolean>;
  /** Returns when the fleet holds nothing of the job, neither a request nor a lease, be it only a vacating one; at once where there never was such a fleet. */
  untilForgotten(fleetWorkflowId: string, jobId: JobId): Promise<void>;
  /** Whether others wait for GPUs that leases hold; not where there is no fleet. */
  othersWait(fleetWorkflowId: string, jobId: JobId): Promise<boolean>;
}

/** Where and when a job enters. */
export interface JobEntry {
  readonly fleetWorkflowId: string;
  readonly jobId: JobId;
  readonly runId: RunId;
  readonly submittedAtMs: number;
  readonly nowMs: number;
}

/** The version of the job workflow's logic that new runs follow. 2: local activities one at a time, hosts found by plain ones. 3: fleets are cells. */
export const JOB_RULES = 3;

export type Admission =
  | {
      readonly kind: "admitted";
      readonly rules: number;
      readonly spec: JobSpec;
      readonly told: Told;
      /** What is made for its runs before they start; absent when nothing is. */
      readonly outfits?: readonly OutfitPart[];
    }
  | { readonly kind: "refused"; readonly code: FailureCode; readonly message: string };

export type Told =
  /** The fleet has it. */
  | { readonly kind: "told" }
  /** Nothing was asked of the fleet: the job is held. */
  | { readonly kind: "silent" }
  | { readonly kind: "no-fleet"; readonly message: string };

/** Activities of the fleet's worker. `decide` is a local one: its answer is in history, its arguments are not. */
export interface FleetActivities {
  decide(snapshot: PackedLedger, nowMs: number): Promise<Plan>;
  /** Signals the winners of a cycle and those who are to make room, tells waiting jobs why they wait and running ones what they have lost, and starts sweeps. */
  deliver(post: Post): Promise<DeliveryReport>;
  /** Looks at the runs of jobs themselves; asks those that were reset, or whose leases are doubted, to speak for themselves. */
  audit(holders: AuditOrder): Promise<AuditReport>;
  /** When some of the jobs that wait would start, from plays of the queue on the ledger of this moment. Takes seconds. */
  foresee(order: ForesightOrder): Promise<Foresight>;
  /** Asks all presences to report and, for a fleet that has lost its ledger, all open jobs to assert what they have. */
  recover(order: RecoverOrder): Promise<void>;
}

export interface ForesightOrder {
  readonly fleet: string;
}

export interface Foresight {
  readonly askedAtMs: number;
  readonly estimates: readonly StartEstimate[];
}

export interface AuditOrder {
  readonly holders: readonly Holder[];
  /** Those of the holders that are to assert what they hold, if they live. */
  readonly asked: readonly JobId[];
}

export interface Holder {
  readonly jobId: JobId;
  readonly runId: RunId;
}

export interface AuditReport {
  /** Runs that are closed, or that the job has left behind by a reset. */
  readonly closed: readonly Holder[];
}

export interface RecoverOrder {
  /** Whether jobs are to be asked as well. */
  readonly isLedgerLost: boolean;
  readonly fleet: string;
  readonly clusters: readonly string[];
}

export interface Post {
  readonly grants: readonly Delivery[];
  readonly pending: readonly PendingNote[];
  /** Absent in the posts of fleets that know of no fences. */
  readonly losses?: readonly Loss[];
  readonly sweeps?: readonly SweepInput[];
  /** Absent when nobody is evicted. */
  readonly evictions?: readonly EvictionOrder[];
}

/** Asks a job to give up a lease. */
export interface EvictionOrder extends Holder {
  readonly order: PreemptOrder;
}

/** Tells a job that nothing of its lease counts on these hosts any more. */
export interface Loss extends Holder {
  readonly lease: LeaseId;
  readonly hosts: readonly HostId[];
}

/** One grant on its way to its job. */
export interface Delivery {
  readonly lease: Lease;
  readonly reason: string;
  readonly predictedGBs?: number;
  readonly bandwidth?: BandwidthNote;
  readonly agents: readonly GrantedAgent[];
}

export interface GrantedAgent {
  readonly host: HostId;
  readonly agent: AgentAddress;
  /** Without a heartbeat for this long the host is silent. */
  readonly silenceMs?: number;
}

export interface PendingNote extends RequestKey {
  readonly reason: PendingReason;
}

/** A grant that is in neither list could not be delivered yet and stays in the outbox. */
export interface DeliveryReport {
  readonly accepted: readonly LeaseId[];
  readonly gone: readonly LeaseId[];
  /** Orders to give up leases; one that is in neither list goes again. Absent when there was none. */
  readonly evictions?: { readonly sent: readonly LeaseId[]; readonly gone: readonly LeaseId[] };
}
