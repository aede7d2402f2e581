/**
 * @file The ledger: all that a fleet knows for certain. `apply` alone changes it; `decide` reads it as its snapshot.
 *
 * Maps are keyed by ids and iterate in insertion order, which is the order of events: the same events give the same
 * ledger, byte for byte, on every machine.
 */

import type { BandwidthNote } from "../domain/bandwidth-note.ts";
import type { RefusalCode } from "../domain/codes.ts";
import type { FleetShape } from "../domain/fleet.ts";
import type { ClusterId, HostId, JobId, LeaseId, RunId, TenantId, Token } from "../domain/ids.ts";
import type { JobClass } from "../domain/job.ts";
import type { GangRequest, Lease, LeaseFact, RequestKey, Reservation } from "../domain/lease.ts";
import type { PendingReason } from "../domain/pending.ts";
import type { PendingRequest, Plan } from "../domain/plan.ts";
import type { SiteLink } from "../domain/site-link.ts";
import type { Ms } from "../domain/units.ts";
import type { Foreseen, StartEstimate } from "./foreseen.ts";

/** The version of the rules in `apply`; a run of the fleet workflow keeps to the one in its input. */
export const APPLY_VERSION = 1;

export interface Ledger {
  readonly applyVersion: number;
  readonly shape: FleetShape;
  /** Key of the measured details in the store; absent when nothing was measured. */
  readonly detailsHash?: string;
  /** The token of the next grant. */
  readonly nextToken: number;
  readonly nextArrival: number;
  /** One request a job at most, keyed by job id, in order of arrival. */
  readonly requests: ReadonlyMap<JobId, PendingRequest>;
  readonly reasons: ReadonlyMap<JobId, PendingReason>;
  readonly leases: ReadonlyMap<LeaseId, Lease>;
  readonly hosts: ReadonlyMap<HostId, HostStanding>;
  /** Grants whose delivery has not been confirmed, in order. */
  readonly outbox: ReadonlyMap<LeaseId, OutboxGrant>;
  /** The last entries that could not be understood, newest last, at most 50. */
  readonly deadLetters: readonly DeadLetter[];
  /** What is set apart, in order of time; absent in ledgers of former rules and when nothing is. */
  readonly reservations?: ReadonlyMap<JobId, Reservation>;
  /** Who was served how much, see service.ts; absent until something was. */
  readonly service?: ServiceAccount;
  /** Evictions of the last hour, oldest first, for the budgets. */
  readonly evictions?: readonly EvictionNote[];
  /** How the demand of inference jobs went lately; see latency-demand.ts. Absent until there was one. */
  readonly latencyDemand?: DemandTrace;
  /** The last leases that ended, oldest first, for estimates; see runs.ts. */
  readonly runs?: readonly RunNote[];
  /** The fleet's own last start estimates, in order of asking; see foreseen.ts. Absent until there was one. */
  readonly foreseen?: readonly Foreseen[];
  /** Which version of the bandwidth model serves in which cluster; absent of clusters that have none. */
  readonly models?: ReadonlyMap<ClusterId, ServingModel>;
  /** What the link monitor found, by `siteLinkKey`; absent until it told. Decisions read them by `linksNow` (links.ts). */
  readonly links?: ReadonlyMap<string, SiteLink>;
}

/**
 * Service by class, and by tenant inside a class. `flows` is keyed `class` and `class tenant`. The account is settled up to `atMs`.
 * Virtual service is service in GPU-seconds divided by the flow's weight; see service.ts for how idle flows catch up.
 */
export interface ServiceAccount {
  readonly atMs: number;
  readonly flows: ReadonlyMap<string, ServiceFlow>;
}

export interface ServiceFlow {
  /** GPU-seconds received, ever. */
  readonly receivedGpuSeconds: number;
  /** Virtual service: where the flow stands among its siblings. */
  readonly virtualSeconds: number;
}

export interface ServingModel {
  readonly version: string;
  /** Counts what was published for the cluster: a late word of an earlier one changes nothing. */
  readonly generation: number;
}

/** One run from its request to its end. */
export interface RunNote {
  readonly class: JobClass;
  readonly tenant: TenantId;
  /** What it asked for; it may have had less. */
  readonly gpus: number;
  readonly submittedAtMs: number;
  readonly grantedAtMs: number;
  readonly endedAtMs: number;
  readonly timeLimitMs?: Ms;
}

export interface DemandTrace {
  /** Now. */
  readonly gpus: number;
  /** Of seconds in which it changed, ascending: the second, the demand at its beginning, the most in it. */
  readonly slots: readonly (readonly [slot: number, startGpus: number, mostGpus: number])[];
}

export interface EvictionNote {
  readonly atMs: number;
  /** The tenant for whose job it was. */
  readonly tenant: TenantId;
  readonly lostGpuSeconds: number;
}

export interface HostStanding {
  /** The agent that answers for the host; absent until one said hello. */
  readonly agent?: AgentAddress;
  /** No new grants here; what runs goes on. */
  readonly isDrained: boolean;
  readonly drainReason?: string;
  /** How long after its silence began the GPUs are granted again, as its agent has agreed to; absent: not by any clock. */
  readonly fenceMs?: number;
  /** It does not answer: nothing new is offered there. */
  readonly silentSinceMs?: number;
  /** Whatever ran there counts as gone; nothing is offered before its agent reports again. */
  readonly isFenced?: true;
  /** When it was fenced; absent where nobody noted it. */
  readonly fencedAtMs?: number;
  /** The newest epoch heard of, where no agent is: a hello of an older one is a late copy. */
  readonly lastEpoch?: string;
}

/** Where the orders for a host go. The epoch is part of the queues' names, so stale tasks die in old queues. */
export interface AgentAddress {
  readonly epoch: string;
  readonly runQueue: string;
  readonly orderQueue: string;
  /** What other hosts of a gang connect to. */
  readonly address: string;
}

export interface OutboxGrant {
  readonly predictedGBs?: number;
  readonly bandwidth?: BandwidthNote;
  readonly reason: string;
}

export interface DeadLetter {
  readonly atMs: number;
  readonly code: RefusalCode;
  readonly message: string;
  /** The first 500 characters of the entry as JSON. */
  readonly entry: string;
}

/** What arrives at the fleet, one entry a fact; each is idempotent against the current ledger. */
export type InboxEntry =
  | { readonly kind: "request"; readonly request: GangRequest }
  /** A job's last word about `seq` and all before it: release what it holds, drop and refuse its requests. */
  | {
      readonly kind: "end";
      readonly jobId: JobId;
      readonly runId: RunId;
      readonly seq: number;
      /** Hosts on which it is not known that nothing runs any more: their GPUs stay taken (`vacating`). */
      readonly unconfirmedHosts: readonly HostId[] | "all";
      /** Only this lease, and no request: one part of a job array is done. */
      readonly lease?: LeaseId;
    }
  /** A job runs on this lease; for a fleet that has lost its ledger, or doubts it. */
  | { readonly kind: "assert"; readonly lease: LeaseFact }
  /** An agent serves hosts, and says what it runs and the highest token it has ever seen. Said again after a silence. */
  | {
      readonly kind: "agent-hello";
      readonly hosts: readonly HostId[];
      readonly agent: AgentAddress;
      readonly running: readonly {
        readonly host: HostId;
        readonly lease: LeaseId;
        readonly token: Token;
        /** The whole lease, as the agent was told of it. */
        readonly fact?: LeaseFact;
      }[];
      readonly highestToken: number;
      /** What was agreed on about silence; absent in the words of agents that know of no presence. */
      readonly terms?: { readonly fenceMs?: number };
    }
  /** The agent of that epoch does not answer. */
  | { readonly kind: "silence"; readonly hosts: readonly HostId[]; readonly epoch: string }
  /** An agent ends on purpose: its hosts are not offered until one says hello again. */
  | { readonly kind: "agent-bye"; readonly hosts: readonly HostId[]; readonly epoch: string }
  /** Agents tell, in batches, of checkpoints that were completed. */
  | {
      readonly kind: "checkpointed";
      readonly marks: readonly { readonly lease: LeaseId; readonly atMs: number }[];
    }
  /** From now on this version of the bandwidth model serves in the cluster. */
  | ({ readonly kind: "model"; readonly cluster: ClusterId } & ServingModel)
  /** The link monitor has news of these links between sites. */
  | { readonly kind: "links"; readonly links: readonly SiteLink[] }
  /** A host has confirmed that nothing runs under this lease any more. */
  | { readonly kind: "vacated"; readonly lease: LeaseId; readonly hosts: readonly HostId[] };

export type LedgerEvent =
  | { readonly kind: "inbox"; readonly entries: readonly unknown[]; readonly nowMs: number }
  | { readonly kind: "plan"; readonly plan: Plan; readonly nowMs: number }
  | {
      readonly kind: "delivered";
      readonly accepted: readonly LeaseId[];
      /** The job is closed or has never heard of it: the lease is released. */
      readonly gone: readonly LeaseId[];
      readonly nowMs: number;
    }
  | {
      readonly kind: "drain";
      readonly hosts: readonly HostId[];
      readonly reason: string;
      readonly nowMs: number;
    }
  | { readonly kind: "undrain"; readonly hosts: readonly HostId[]; readonly nowMs: number }
  /** Orders to give up GPUs were delivered to these leases' jobs; `gone`: the job is closed, the lease is released. */
  | {
      readonly kind: "evictions-sent";
      readonly sent: readonly LeaseId[];
      readonly gone: readonly LeaseId[];
      readonly nowMs: number;
    }
  /** An operator vouches that nothing runs on these hosts. */
  | { readonly kind: "fence"; readonly hosts: readonly HostId[]; readonly nowMs: number }
  /** Time has passed: hosts that have been silent for long enough are fenced. */
  | { readonly kind: "clock"; readonly nowMs: number }
  /** Runs of jobs that were found closed: nothing more will be heard of them. */
  | {
      readonly kind: "audited";
      readonly closed: readonly { readonly jobId: JobId; readonly runId: RunId }[];
      readonly nowMs: number;
    }
  /** When some of the jobs that waited at `askedAtMs` would start, as plays of the queue then said. */
  | {
      readonly kind: "foreseen";
      readonly estimates: readonly StartEstimate[];
      readonly askedAtMs: number;
      readonly nowMs: number;
    }
  | {
      readonly kind: "fleet-changed";
      readonly shape: FleetShape;
      readonly detailsHash?: string;
      readonly nowMs: number;
    };

export interface Refusal {
  readonly code: RefusalCode;
  readonly message: string;
  /** The plan item's request or the entry's job, when it has one. */
  readonly request?: RequestKey;
}

export interface Applied {
  readonly ledger: Ledger;
  readonly refusals: readonly Refusal[];
  /** Leases granted by this event, in order. */
  readonly granted: readonly LeaseId[];
  /** Whether anything changed that could let `decide` answer differently. */
  readonly needsDecision: boolean;
  /** Leases that a job claims and that cannot be its own any more: their GPUs are another's, or their hosts were fenced. */
  readonly disowned: readonly LeaseFact[];
}
