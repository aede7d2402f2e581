/**
 * @file What a lobby asks of workers: to keep sorted rows in the store and to read them again, and to call jobs in. Also the input of its runs.
 *
 * Rows travel as tuples, because a lobby of a million jobs moves each of them several times.
 */

import type { JobClass } from "../domain/job/job.ts";
import type { LobbyKey } from "../domain/lease/lobby-order.ts";
import type { LobbyCredit, LobbyRow, WaitingByClass } from "../domain/lease/lobby.ts";
import type { JobId, RunId, TenantId } from "../domain/values/ids.ts";
import type { LobbyLeave } from "./lobby.ts";

export type PackedRow = readonly [
  jobId: JobId,
  runId: RunId,
  seq: number,
  jobClass: JobClass,
  priority: number,
  submittedAtMs: number,
  gpus: number,
  round: number,
];

/** A job that has left while its row may lie in the store: all requests of its run up to `seq`. */
export type Leaver = readonly [jobId: JobId, runId: RunId, seq: number];

/** What the order goes by in the row of that rank in its run, from 0. */
export type Sample = readonly [
  round: number,
  priority: number,
  submittedAtMs: number,
  rank: number,
];

/** Rows in the store, in the order of calling. */
export interface StoredRun {
  /** Key of the list of the run's pages in the store. */
  readonly directory: string;
  readonly count: number;
  /** Evenly spread, the first row's first; never empty where there are rows. */
  readonly samples: readonly Sample[];
}

/** A run from its row of that rank on. */
export interface RunRest {
  readonly directory: string;
  readonly at: number;
}

/** The store has lost a page. */
export interface LostRows {
  readonly kind: "lost";
}

/** What a job tells, and whom: the lobby of its tenant at a fleet. */
export interface LobbyExit extends LobbyLeave {
  readonly fleet: string;
  readonly tenant: TenantId;
}

export interface CallOrder {
  readonly credit: number;
  readonly jobId: JobId;
  readonly runId: RunId;
  readonly seq: number;
  readonly round: number;
}

export interface MergeOrder {
  readonly name: string;
  readonly runs: readonly RunRest[];
  /** Keys of leavers. */
  readonly leavers: readonly string[];
  /** Keys of directories and leavers that were replaced before the present run of the lobby began. */
  readonly unused: readonly string[];
}

/** Activities of the fleet's worker, which has the store. The name tells equal rows of different orders apart. */
export interface LobbyStoreActivities {
  keepRows(order: {
    readonly name: string;
    readonly rows: readonly PackedRow[];
  }): Promise<StoredRun>;
  /** Returns their key. */
  keepLeavers(order: {
    readonly name: string;
    readonly leavers: readonly Leaver[];
  }): Promise<string>;
  /** The next rows of each run, at most so many bytes of each, but at least one row. */
  loadRows(order: {
    readonly runs: readonly RunRest[];
    readonly maxBytes: number;
  }): Promise<
    { readonly kind: "rows"; readonly rows: readonly (readonly PackedRow[])[] } | LostRows
  >;
  /** Makes one run of several, without those that have left, and removes from the store what is unused. */
  mergeRows(
    order: MergeOrder,
  ): Promise<{ readonly kind: "merged"; readonly run: StoredRun } | LostRows>;
}

/** Activities of the jobs' workers. */
export interface LobbyActivities {
  /** Signals each of the jobs; returns the credits of those that have ended. `isProofAsked`: by the fleet of its lobbies; absent where not. */
  callIn(
    calls: readonly CallOrder[],
    fleetWorkflowId: string,
  ): Promise<{ readonly gone: readonly number[]; readonly isProofAsked?: true }>;
  /** Tells a lobby once more what closed runs of it had been told since they began; where its fleet asks for proof, what was proven. */
  retellLobby(order: {
    readonly fleet: string;
    readonly tenant: TenantId;
    readonly runs: readonly string[];
  }): Promise<void>;
  /** Asks all waiting jobs of a tenant to speak for themselves, because rows were lost. */
  musterJobs(order: { readonly fleet: string; readonly tenant: TenantId }): Promise<void>;
}

export interface LobbyInput {
  readonly fleet: string;
  readonly tenant: TenantId;
  /** Absent in a lobby that opens. */
  readonly carried?: CarriedLobby;
  /** Runs that were ended by hand after they had begun with `carried`; what they were told is told again. */
  readonly former?: readonly string[];
  /** Nobody knows what the lobby before had: it asks all waiting jobs of the tenant. */
  readonly isMusterDue?: true;
  /** The lobby believes what it is told only with proof of who speaks. */
  readonly isProofAsked?: true;
}

/** What a run hands to the next one; at most about 1 MiB. */
export interface CarriedLobby {
  readonly queues: readonly CarriedQueue[];
  readonly credits: readonly LobbyCredit[];
  readonly called: readonly (readonly [
    credit: LobbyCredit,
    row: PackedRow,
    atMs: number,
    isOvertaken?: true,
  ])[];
  readonly returned: readonly number[];
  /** What the fleet was told last. */
  readonly reported?: { readonly waiting: WaitingByClass };
  /** The number of the last report. */
  readonly reports: number;
  /** Replaced in the run before; this run's merges remove them. */
  readonly unused: readonly string[];
  readonly nextId: number;
}

export interface CarriedQueue {
  readonly class: JobClass;
  readonly rows: readonly PackedRow[];
  readonly runs: readonly OpenRun[];
  readonly leavers: readonly Leaver[];
  readonly storedLeavers: readonly string[];
  readonly storedLeaverCount: number;
}

export interface OpenRun extends StoredRun {
  /** Rank of the first row that was not read back. */
  readonly at: number;
  /** No row from there on comes before it. */
  readonly bound: LobbyKey;
}

export const packRow = (row: LobbyRow): PackedRow => [
  row.jobId,
  row.runId,
  row.seq,
  row.class,
  row.priority,
  row.submittedAtMs,
  row.gpus,
  row.round,
];

export const unpackRow = ([
  jobId,
  runId,
  seq,
  jobClass,
  priority,
  submittedAtMs,
  gpus,
  round,
]: PackedRow): LobbyRow => ({
  jobId,
  runId,
  seq,
  class: jobClass,
  priority,
  submittedAtMs,
  gpus,
  round,
});

/** Upper bound of the bytes that a packed row takes as JSON, for ids without control characters. */
export const rowBytes = ({ jobId, runId }: Pick<LobbyRow, "jobId" | "runId">): number =>
  textBytes(jobId) + textBytes(runId) + 80;

export const leaverBytes = ([jobId, runId]: Leaver): number =>
  textBytes(jobId) + textBytes(runId) + 24;

/** Plain letters take a byte each, all others at most three. */
const textBytes = (text: string): number =>
  /^[\w./:@-]*$/.test(text) ? text.length : 6 * text.length;
