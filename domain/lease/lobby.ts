/** @file A request that waits outside its fleet, and the place that a fleet has promised to a lobby. */

import type { JobClass } from "../job/job.ts";
import type { JobId, RunId, TenantId } from "../values/ids.ts";

/** A request that waits outside. Jobs are called in by round, then the higher priority, then submission, then job id. */
export interface LobbyRow {
  readonly jobId: JobId;
  readonly runId: RunId;
  readonly seq: number;
  readonly class: JobClass;
  readonly priority: number;
  readonly submittedAtMs: number;
  readonly gpus: number;
  /** How often it was inside and gave way to another, and under which description of the fleet it did so in vain (`lobby-order.ts`); 0 at first. */
  readonly round: number;
}

/** A place inside for one job of the class. Numbers are never given twice, whatever the tenant. */
export interface LobbyCredit {
  readonly number: number;
  readonly class: JobClass;
}

/** What a lobby tells its fleet. */
export interface LobbyReport {
  /** Whose lobby it is. */
  readonly tenant: TenantId;
  /** Grows from report to report, also beyond the end of a lobby (a time does); an older one is a late copy. */
  readonly report: number;
  /**
   * How many wait there that have not been called in. The lobby reports again after every change of it that is not a call-in,
   * so the last report counts all rows that it has received.
   */
  readonly waiting: WaitingByClass;
  /** Those of them that are called in first; absent of classes of which nobody waits, and in lobbies of former releases. */
  readonly first?: FirstByClass;
  /** Numbers of credits for which nobody waits there. */
  readonly returned: readonly number[];
}

export type WaitingByClass = Readonly<Record<JobClass, number>>;

export type FirstByClass = Readonly<Partial<Record<JobClass, FirstWaiting>>>;

export interface FirstWaiting {
  /** The lowest of those that wait. */
  readonly round: number;
  /** About how many are of its era: at least 1 as long as nobody has been called in since. */
  readonly count: number;
}
