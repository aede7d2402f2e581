/**
 * @file What the console sends to browsers: tables of rows by key. A snapshot has all rows, a delta those that changed or went.
 *
 * Browsers derive the state of each GPU from leases, reservations and hosts, so a change costs a row and not a map.
 */

export interface HostRow {
  readonly cluster: string;
  readonly site: string;
  readonly rack: string;
  readonly gpuType: string;
  readonly gpus: number;
  /** Its place in the fleet file. */
  readonly at: number;
  /** Why nothing new starts there; absent when new work may. */
  readonly condition?: "agentless" | "fenced" | "silent" | "drained";
  readonly drainReason?: string;
  readonly silentSinceMs?: number;
  /** GPUs that are out of service, whatever the host is; absent for none. */
  readonly gpuDrains?: readonly { readonly mask: number; readonly reason: string }[];
}

export type GpuMask = readonly [host: string, mask: number];

export interface LeaseRow {
  readonly job: string;
  readonly class: string;
  readonly tenant: string;
  /** `evicted`: its job was asked to give the GPUs up. */
  readonly state: "granted" | "held" | "vacating" | "evicted";
  readonly gpus: readonly GpuMask[];
  readonly sinceMs: number;
  readonly forJob?: string;
  readonly lostGpuSeconds?: number;
  readonly checkpointedAtMs?: number;
  readonly wanted?: number;
  /** Collective bandwidth that was expected of the gang at its grant, in GB/s. */
  readonly predictedGbs?: number;
}

export interface ReservationRow {
  readonly gpus: readonly GpuMask[];
  readonly kind: string;
  readonly sinceMs: number;
}

export interface RequestRow {
  readonly name: string;
  readonly class: string;
  readonly tenant: string;
  readonly gpus: number;
  readonly slots?: number;
  readonly priority: number;
  readonly submittedAtMs: number;
}

export interface ReasonRow {
  readonly code: string;
  readonly message: string;
  readonly numbers: Readonly<Record<string, number>>;
  readonly holders: readonly string[];
}

/** What a host's agent tells of each of its GPUs: percent, watts and minutes; `UNTOLD` where it says nothing. */
export interface UseRow {
  readonly use: readonly number[];
  readonly memory: readonly number[];
  readonly watts: readonly number[];
  readonly idleMinutes: readonly number[];
  /** Percent of the time in which the tensor cores worked; absent where no GPU of the host says so. */
  readonly tensor?: readonly number[];
}

export const UNTOLD = -1;

/** A class, or a tenant inside a class (`class tenant`). */
export interface FlowRow {
  readonly class: string;
  readonly tenant?: string;
  readonly weight: number;
  readonly waiting: number;
  readonly runningGpus: number;
  readonly dueGpus: number;
  readonly deficitGpuHours: number;
}

/** One folded plan: what a cycle granted, evicted, reserved and left waiting. */
export interface DecisionRow {
  readonly atMs: number;
  readonly method: string;
  readonly candidates: number;
  readonly grants: readonly string[];
  readonly evictions: readonly string[];
  readonly reservations: readonly string[];
  readonly refusals: readonly string[];
  readonly waiting: number;
}

export interface Tables {
  readonly hosts: HostRow;
  readonly leases: LeaseRow;
  readonly reservations: ReservationRow;
  readonly requests: RequestRow;
  readonly reasons: ReasonRow;
  readonly flows: FlowRow;
  readonly decisions: DecisionRow;
  /** By host; of the present alone. */
  readonly use: UseRow;
}

export const TABLES = [
  "hosts",
  "leases",
  "reservations",
  "requests",
  "reasons",
  "flows",
  "decisions",
  "use",
] as const satisfies readonly (keyof Tables)[];

export type TableChange<Row> = {
  readonly set?: Readonly<Record<string, Row>>;
  readonly gone?: readonly string[];
};

export type Changes = { readonly [Name in keyof Tables]?: TableChange<Tables[Name]> };

export interface Facts {
  readonly fleet: string;
  /** The time of the last event of the fleet's history. */
  readonly atMs: number;
  /** Why the history cannot be read now. */
  readonly trouble?: string;
  /** Page of the fleet's own workflow in Temporal's UI; those of jobs lie beside it. */
  readonly temporalUrl?: string;
  /** The reader may read logs and give orders. */
  readonly mayAct?: true;
  /** From when on the fleet can be shown as it was, and whether still older runs may be read. */
  readonly past?: { readonly fromMs: number; readonly isMore: boolean };
  /** Jobs that have used none of their GPUs for longer than their tenants' rules allow, and what becomes of them. */
  readonly idle?: readonly { readonly job: string; readonly act: string }[];
}

/** The fleet at an instant of its past. */
export interface PastAnswer {
  readonly message: Message;
  /** Of the last event at or before the instant. */
  readonly atMs: number;
  /** When something happened before and after it. */
  readonly beforeMs?: number;
  readonly afterMs?: number;
  readonly past: NonNullable<Facts["past"]>;
}

/** What a host's GPUs were leased to, as far back as the console has followed. */
export interface HostPast {
  readonly host: string;
  readonly sinceMs: number;
  readonly spans: readonly HostSpan[];
}

export interface HostSpan extends Pick<LeaseRow, "job" | "class" | "tenant"> {
  readonly lease: string;
  readonly mask: number;
  readonly fromMs: number;
  /** Absent while it is held. */
  readonly toMs?: number;
}

/** What tenants held and were due, over time. */
export interface SharesPast {
  readonly samples: readonly ShareSample[];
}

export interface ShareSample {
  readonly atMs: number;
  readonly tenants: Readonly<Record<string, TenantShare>>;
}

export type TenantShare = readonly [heldGpus: number, dueGpus: number, waitingJobs: number];

/** What a job would do if it were submitted now. */
export interface WhatIfAnswer {
  readonly name: string;
  readonly kind: "starts" | "preempts" | "waits" | "never" | "refused" | "wrong";
  readonly message: string;
  /** GPUs on which it would run. */
  readonly gpus?: readonly GpuMask[];
  readonly facts: readonly (readonly [name: string, text: string])[];
}

/** What a reader who may act can have done to a job, and to a host. */
export const JOB_ORDERS = ["cancel", "hold", "release", "suspend", "requeue"] as const;
export type JobOrder = (typeof JOB_ORDERS)[number];
export const HOST_ORDERS = ["drain", "undrain"] as const;
export type HostOrder = (typeof HOST_ORDERS)[number];

export type Order =
  | { readonly order: JobOrder; readonly job: string }
  | { readonly order: HostOrder; readonly host: string; readonly reason?: string };

/** A part of a rank's output. */
export type LogEvent =
  | { readonly text: string }
  | { readonly attempt: number }
  /** Nothing more comes. */
  | { readonly isEnd: true; readonly trouble?: string };

export type Message =
  | {
      readonly kind: "snapshot";
      readonly facts: Facts;
      readonly changes: Changes;
      /** The waiting jobs, the next one first. */
      readonly order: readonly string[];
    }
  | {
      readonly kind: "delta";
      readonly facts?: Facts;
      readonly changes?: Changes;
      readonly order?: readonly string[];
    };
