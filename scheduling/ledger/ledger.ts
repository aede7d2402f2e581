/**
 * @file The ledger: all that a fleet knows for certain. `apply` alone changes it; `decide` reads it as its snapshot.
 *
 * Maps are keyed by ids and iterate in insertion order, which is the order of events: the same events give the same ledger, byte for
 * byte, on every machine. Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import type { BandwidthNote } from "../../domain/lease/bandwidth-note.ts";
import type { RefusalCode } from "../../domain/values/codes.ts";
import type { FleetShape } from "../../domain/fleet/fleet.ts";
import type {
  ClusterId,
  HostId,
  JobId,
  LeaseId,
  RunId,
  TenantId,
} from "../../domain/values/ids.ts";
import type { JobClass } from "../../domain/job/job.ts";
import type {
  ClosedRun,
  GangRequest,
  Lease,
  LeaseFact,
  RequestKey,
  Reservation,
} from "../../domain/lease/lease.ts";
import type { PendingReason } from "../../domain/lease/pending.ts";
import type { QueuePart } from "../../domain/lease/queue-part.ts";
import type { PendingRequest, Plan } from "../../domain/lease/plan.ts";
import type { SiteLink } from "../../domain/fleet/site-link.ts";
import type { Ms } from "../../domain/values/units.ts";
import type { AgentAddress, ServingModel } from "../../domain/lease/inbox-entry.ts";
import type { StartEstimate } from "../../domain/lease/start-estimate.ts";
import type { Intake } from "./intake.ts";
import type { Drain, WithGpuDrains } from "./rules/gpu-drains.ts";
import type { KeptEstimate } from "./rules/start-estimates.ts";

/**
 * The versions of the rules that this program follows: those of `apply` and of the fleet's machine. A run of the fleet workflow keeps to
 * the one in its ledger; `upgrade.ts` goes from one to the next. New fleets begin with the newest.
 */
export const OLDEST_RULES = 1;
export const NEWEST_RULES = 12;

/** From these rules on intake is bounded, words from outside are refused and never clamped, and the decider keeps its ledger. */
export const BOUNDED_RULES = 2;

/** Whether the ledger follows these rules. */
export const isBounded = ({ applyVersion }: Pick<Ledger, "applyVersion">): boolean =>
  applyVersion >= BOUNDED_RULES;

/** From these rules on nothing but its clock tells a fleet's machine that time has made it due (docs/decisions/0014). */
export const CLOCKED_RULES = 3;

/** Whether the ledger follows these rules. */
export const isClocked = ({ applyVersion }: Pick<Ledger, "applyVersion">): boolean =>
  applyVersion >= CLOCKED_RULES;

/** From these rules on a host can fall silent that the ledger has not heard of since it was lost. */
export const SILENT_STRANGERS_RULES = 4;

/** From these rules on operators hold the whole queue, a tenant's or a class's. */
export const QUEUE_HOLD_RULES = 5;
/** From these rules on requests say what they take of their hosts' processors and memory, and no grant takes more than a host has left. */
export const RESOURCE_RULES = 5;
/** From these rules on what a presence tells of an agent counts in the order in which it was told, not in that of its arrival. */
export const ORDERED_PRESENCE_RULES = 5;

/** From these rules on a fenced host that answers again takes back what its fence has confirmed of leases that are still held. */
export const RETURNING_HOSTS_RULES = 5;
/** From these rules on fleets and their jobs believe what they are told only with proof of the sender's role (docs/decisions/0106). */
export const SIGNED_RULES = 5;
/** From these rules on a fleet carries out an operator's order only with proof of who gives it. */
export const SIGNED_ORDER_RULES = 6;

/** From these rules on a fleet's presences, lobbies and learners ask for proof, too. */
export const SIGNED_ATTENDANT_RULES = 7;

/** What a fleet asks proof of, as its memo says it to jobs. */
export const askedProof = (
  { applyVersion }: Pick<Ledger, "applyVersion">,
  areWordsSigned: boolean,
): {
  readonly areWordsSigned: boolean;
  readonly areOrdersSigned: boolean;
  readonly areAttendantsSigned: boolean;
} => ({
  areWordsSigned,
  areOrdersSigned: areWordsSigned && applyVersion >= SIGNED_ORDER_RULES,
  areAttendantsSigned: areWordsSigned && applyVersion >= SIGNED_ATTENDANT_RULES,
});

/** From these rules on a gang that has lost a host keeps the others for a time (docs/decisions/0123). */
export const REPLACED_HOSTS_RULES = 6;

/** From these rules on a fleet that has lost its ledger hears from such a gang what was kept for it. */
export const KEPT_AFTER_LOSS_RULES = 8;

/** From these rules on the jobs of a tenant with few inside are called in, however full of others' bytes the fleet is (docs/decisions/0136). */
export const FEW_CALLED_RULES = 7;

/** Whether the ledger follows these rules. */
export const areFewCalled = ({ applyVersion }: Pick<Ledger, "applyVersion">): boolean =>
  applyVersion >= FEW_CALLED_RULES;

/** From these rules on requests say what they train, so that places have prices (docs/decisions/0139). */
export const PRICED_RULES = 7;

/** From these rules on the account of a ledger's size tells gangs apart that differ only in what they take of their hosts, or in what they train. */
export const ASKED_SIZE_RULES = 7;

/** A repair leaves leases alone whose grants are on their way: their jobs deny them because they have not heard of them. */
export const UNHEARD_GRANT_RULES = 7;

/** Whether the grant of a lease is on its way: that says whether the job is gone, and until then nobody asks the job. */
export const isUnheard = (
  { applyVersion, outbox }: Pick<Ledger, "applyVersion" | "outbox">,
  id: LeaseId,
): boolean => applyVersion >= UNHEARD_GRANT_RULES && outbox.has(id);

/** A late copy of a request does not take the place of a newer one that has been put outside. */
export const LATE_COPIES_RULES = 7;
/** The ledger keeps the epoch of an agent that fell silent before it had reported: a late copy of its registration does not end that. */
export const SILENT_SUCCESSORS_RULES = 7;
/** The report of a delivery that has brought every grant to its job makes no turn of the fleet (docs/decisions/0147). */
export const QUIET_REPORT_RULES = 7;
/** A host's word that one task of an array is over does not free the host when the array's lease ends: a later task may run there. */
export const LATER_TASKS_RULES = 7;
/** Where more has come than a slice of the inbox holds, those who sent it take turns (docs/decisions/0171). */
export const FAIR_INBOX_RULES = 8;
/** A grant whose job is gone waits for its hosts: a delivery whose report was lost may have brought it there before. */
export const GONE_GRANT_RULES = 8;
/** A request that the fleet's description can never satisfy gives way once, and not again to others of its kind (docs/decisions/0178). */
export const JUDGED_ONCE_RULES = 8;

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
  readonly hosts: ReadonlyMap<HostId, HostStatus>;
  /** Grants whose delivery has not been confirmed, in order. */
  readonly outbox: ReadonlyMap<LeaseId, OutboxGrant>;
  /** The last entries that could not be understood, newest last, at most 50; which ones stay, dead-letters.ts decides. */
  readonly deadLetters: readonly DeadLetter[];
  /** Reservations in order of time; absent when there is none. */
  readonly reservations?: ReadonlyMap<JobId, Reservation>;
  /** Who was served how much, see service-account.ts; absent until something was. */
  readonly service?: ServiceAccount;
  /** Evictions of the last hour, oldest first, for the budgets. */
  readonly evictions?: readonly EvictionNote[];
  /** How the demand of inference jobs went lately; see inference-demand.ts. Absent until there was one. */
  readonly latencyDemand?: DemandTrace;
  /** The last leases that ended, oldest first, for estimates; see run-history.ts. */
  readonly runs?: readonly RunNote[];
  /** The fleet's own last start estimates, in order of asking; see start-estimates.ts. Absent until there was one. */
  readonly ownEstimates?: readonly KeptEstimate[];
  /** Which version of the bandwidth model serves in which cluster; absent of clusters that have none. */
  readonly models?: ReadonlyMap<ClusterId, ServingModel>;
  /** What the link monitor found, by `siteLinkKey`; absent until it told. Decisions read them by `linksNow` (links.ts). */
  readonly links?: ReadonlyMap<string, SiteLink>;
  /** The requests that wait outside; absent until there was one. Only from `BOUNDED_RULES` on. */
  readonly intake?: Intake;
  /** The rebuilding of a lost ledger; absent when none was lost. */
  readonly recovery?: LedgerRecovery;
  /** What operators hold, by `queueName`, oldest first; absent when nothing is held. */
  readonly holds?: ReadonlyMap<string, QueueHold>;
  /** The last repairs by operators, oldest first; absent when there was none. */
  readonly repairs?: readonly RepairNote[];
  /** Reasons have used up their room, so requests that were never told one wait without; absent while there is room. */
  readonly isReasonRoomLow?: true;
}

/** A part of the queue of which nothing starts; see queue-holds.ts. */
export interface QueueHold {
  readonly queue: QueuePart;
  /** What runs of it is not preempted either. */
  readonly isDraining?: true;
  /** The operator. */
  readonly by: string;
  readonly atMs: number;
  readonly reason?: string;
}

/** What a repair has freed, and what it has left because somebody did not deny it. */
export interface RepairNote {
  readonly key: string;
  /** The operator. */
  readonly by: string;
  readonly atMs: number;
  /** The first of them, by name. */
  readonly freed: readonly string[];
  readonly left: readonly string[];
  readonly freedCount: number;
  readonly leftCount: number;
}

/** While a fleet recovers, it believes agents and jobs about leases that this ledger has never had. */
export interface LedgerRecovery {
  /** Only about tokens below this one: the lost ledger cannot have given others. */
  readonly tokensBelow: number;
  /** The end of the recovery; absent while agents and jobs are still to be asked. */
  readonly untilMs?: number;
}

/**
 * Service by class, and by tenant inside a class. `flows` is keyed `class` and `class tenant`. The account is settled up to `atMs`.
 * Virtual service is service in GPU-seconds divided by the flow's weight; see service-account.ts for how idle flows catch up.
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

export interface HostStatus extends WithGpuDrains {
  /** The agent that answers for the host; absent until one has registered it. */
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
  /** The newest known epoch of a host without an agent, or of one whose agent's successor fell silent: a registration with an older one is a late copy. */
  readonly lastEpoch?: string;
  /** When the presence told the last word of this host's agent that counted; absent where none was dated. From `ORDERED_PRESENCE_RULES` on. */
  readonly toldAtMs?: number;
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
  /** As the sender calls itself: a job, an agent, or the client of a signal that was dropped unread. */
  readonly sender?: string;
  /** How many such entries there were; absent for one. */
  readonly times?: number;
}

/** Entries of one sender that were dropped unread, with the newest of them. */
export interface JunkNote {
  readonly code: RefusalCode;
  readonly message: string;
  readonly entry: string;
  readonly sender: string;
  readonly times: number;
}

export type LedgerEvent =
  | {
      readonly kind: "inbox";
      readonly entries: readonly unknown[];
      /** What came with them and was dropped before. */
      readonly junk?: readonly JunkNote[];
      readonly nowMs: number;
    }
  | { readonly kind: "plan"; readonly plan: Plan; readonly nowMs: number }
  | {
      readonly kind: "delivered";
      readonly accepted: readonly LeaseId[];
      /** The job is closed or has never heard of it: the lease is released. */
      readonly gone: readonly LeaseId[];
      readonly nowMs: number;
    }
  | (Drain & { readonly nowMs: number })
  /** Orders to give up GPUs were delivered to these leases' jobs; `gone`: the job is closed, the lease is released. */
  | {
      readonly kind: "evictions-sent";
      readonly sent: readonly LeaseId[];
      readonly gone: readonly LeaseId[];
      readonly nowMs: number;
    }
  /** Nothing of this part of the queue starts until it is released. Replaces a former hold of the same part. */
  | { readonly kind: "queue-held"; readonly hold: QueueHold; readonly nowMs: number }
  | { readonly kind: "queue-released"; readonly queue: QueuePart; readonly nowMs: number }
  /** An operator vouches that nothing runs on these hosts. */
  | { readonly kind: "fence"; readonly hosts: readonly HostId[]; readonly nowMs: number }
  /** Time has passed: hosts that have been silent for long enough are fenced. */
  | { readonly kind: "clock"; readonly nowMs: number }
  /** Everybody has been asked what the lost ledger held; answers are believed until then. */
  | { readonly kind: "recovery-asked"; readonly untilMs: number; readonly nowMs: number }
  /** Jobs and agents were asked about what an operator doubts; `denied` and `closed` are their answers. */
  | {
      readonly kind: "repaired";
      readonly key: string;
      readonly by: string;
      readonly leases: readonly LeaseId[];
      readonly requests: readonly JobId[];
      readonly reservations: readonly JobId[];
      readonly denied: readonly { readonly lease: LeaseId; readonly hosts: readonly HostId[] }[];
      readonly closed: readonly { readonly jobId: JobId; readonly runId: RunId }[];
      readonly nowMs: number;
    }
  /** Runs of jobs that were found closed: nothing more will be heard of them. */
  | {
      readonly kind: "audited";
      readonly closed: readonly ClosedRun[];
      readonly nowMs: number;
    }
  /** When some of the jobs that waited at `askedAtMs` would start, as plays of the queue then said. */
  | {
      readonly kind: "estimated";
      readonly estimates: readonly StartEstimate[];
      readonly askedAtMs: number;
      readonly nowMs: number;
    }
  /** Lobbies have these rows and credits. */
  | {
      readonly kind: "lobbies-told";
      readonly rows: readonly RequestKey[];
      readonly credits: readonly number[];
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
  readonly orphaned: readonly LeaseFact[];
  /** Requests that this event put outside: refused for want of room (`QueueFull`), or made to give way. */
  readonly outside: readonly RequestKey[];
  /** Requests that would wait outside while their lobbies have yet to hear of many others: to be folded again once these have been told. */
  readonly held: readonly GangRequest[];
}
