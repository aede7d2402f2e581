/** @file The repair of a ledger: what an operator doubts, what is asked of jobs and agents, and what they answer. */

import { defineUpdate } from "@temporalio/workflow";
import type { Proven } from "./word-proof.ts";
import type { HostId, JobId, LeaseId, RunId, Token } from "../domain/values/ids.ts";

/** Things that the ledger holds and that not everybody confirms. Everybody concerned is asked before anything is freed. */
export interface RepairChoice {
  /** Names the note in the ledger. */
  readonly key: string;
  /** The operator. */
  readonly by: string;
  readonly leases: readonly LeaseId[];
  /** Waiting requests of these jobs. */
  readonly requests: readonly JobId[];
  /** Reservations of these jobs. */
  readonly reservations: readonly JobId[];
}

/** Answered when it is accepted; the note in the ledger has the result. */
export const repairUpdate = defineUpdate<void | null, Proven<RepairChoice>>("repair");

export interface RepairOrder {
  readonly fleet: string;
  readonly leases: readonly DoubtedLease[];
  readonly requests: readonly DoubtedRun[];
}

export interface DoubtedRun {
  readonly jobId: JobId;
  readonly runId: RunId;
}

export interface DoubtedLease extends DoubtedRun {
  readonly lease: LeaseId;
  readonly token: Token;
  /** Hosts that have not confirmed that nothing runs there. */
  readonly hosts: readonly HostId[];
}

export interface RepairReport {
  /** Leases that their jobs deny, with the hosts whose agents deny them too. A host that does not answer denies nothing. */
  readonly denied: readonly { readonly lease: LeaseId; readonly hosts: readonly HostId[] }[];
  /** Runs of the requests' jobs that are over. */
  readonly closed: readonly DoubtedRun[];
}
