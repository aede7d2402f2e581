/** @file What the workflows of a fleet are started with, and the versions of their logic. */

import type { ClusterShape } from "../domain/fleet/fleet.ts";
import type { PackedLedger } from "../domain/lease/packed-ledger.ts";
import type { AgentAddress } from "../domain/lease/inbox-entry.ts";
import type { PendingCode } from "../domain/values/codes.ts";
import type { HostId, JobId, LeaseId, Token } from "../domain/values/ids.ts";
import type { PresenceTerms } from "./agent-contract.ts";

export interface FleetInput {
  readonly name: string;
  readonly ledger: PackedLedger;
  /** The version of the rules that this run follows, as its ledger says it; for people who read the history. */
  readonly rules?: number;
  /** What comes needs proof of its sender's role (`word-proof.ts`); from `SIGNED_RULES` on. */
  readonly areWordsSigned?: true;
  /** What became of the last orders that needed proof; absent when there was none. */
  readonly settledOrders?: readonly SettledOrder[];
  /** The numbers of the last proven orders, which count once over all runs; absent when there was none. */
  readonly orderNumbers?: readonly string[];
  /** Its ledger was lost: it asks agents and jobs for their leases and requests. */
  readonly isRecovering?: true;
  /** The agents' terms may have changed: they are to report again. */
  readonly isReportDue?: true;
  /** When agents and jobs are to be asked; carried over continue-as-new. */
  readonly recoverAtMs?: readonly number[];
  /** They are asked because a flooded run dropped words; the ledger is whole. */
  readonly areWordsLost?: true;
  /** Of a fleet whose last run has lost its ledger and ended before all were asked: until then it grants nothing. From rules of version 12 on. */
  readonly quietUntilMs?: number;
  /** What had come to the last run and was not heard there, in its order; from `OWN_TASK_RULES` on. */
  readonly words?: readonly CarriedWord[];
  /** How deciders that kept the ledger of the last run get to this run's; absent when they need a snapshot. */
  readonly chain?: CarriedChain;
  /** The last notice to each waiting job; carried over continue-as-new under rules without a budget. */
  readonly notified?: readonly (readonly [jobId: JobId, code: PendingCode, atMs: number])[];
  /** The code of the last notice to each waiting job, a character each in the order of the ledger's requests. */
  readonly notifiedCodes?: string;
}

/** A signal or update as it came, with what its proof covers: a character of `value` for each byte. */
export interface CarriedWord {
  readonly batch: unknown;
  readonly value?: string;
  readonly proof?: string;
  readonly bytes?: number;
  readonly sender?: string;
  /** When the run to which it came began: its proof is judged as of then, however long it has waited. */
  readonly sinceMs?: number;
  readonly flaw?: string;
  readonly order?: { readonly name: string; readonly id: string };
}

export interface SettledOrder {
  /** Of the update. */
  readonly id: string;
  /** Whether somebody gave it who may. */
  readonly isProven: boolean;
  /** Why it was not carried out; absent when it was. */
  readonly code?: string;
  readonly message?: string;
}

/** See `scheduling/ledger/event-chain.ts`. */
export interface CarriedChain {
  /** Of the ledger in the input; a chain of other rules is void. */
  readonly rules: number;
  readonly since: string;
  readonly links: readonly string[];
}

/** A cluster as the fleet describes it now, with the key of its measured tables. */
export interface ClusterDescription {
  readonly cluster: ClusterShape;
  readonly detailsHash?: string;
}

export type SilenceTerms = Pick<PresenceTerms, "silenceMs" | "fenceMs" | "onSilence">;

/** The presence of one cluster's hosts: attends their agents and tells the fleet of transitions. */
export interface PresenceInput {
  readonly fleet: string;
  readonly cluster: string;
  /** Carried over continue-as-new. */
  readonly agents?: readonly PresentAgent[];
  /** When the run before told its last word to the fleet; absent where it told none, or did not date it. */
  readonly toldAtMs?: number;
}

export interface PresentAgent {
  readonly agent: AgentAddress;
  readonly hosts: readonly HostId[];
}

/** Sees to it that nothing runs under a lease whose job is gone, host by host, and tells the fleet. */
export interface SweepInput {
  readonly fleet: string;
  readonly jobId: JobId;
  readonly lease: LeaseId;
  readonly token: Token;
  readonly hosts: readonly HostId[];
  /** Signed by the fleet's worker: hosts end by it what no job of theirs asks to end (`access/ticket.ts`). */
  readonly ticket?: string;
  /** Asks so many times at most, then ends with the hosts that have not answered; without a limit when absent. */
  readonly passes?: number;
}

/** A log session: a short-lived workflow that carries log reads to an agent's order queue. */
export interface LogSessionInput {
  /** The version of the workflow's logic that this run follows; 1 when absent. */
  readonly rules?: number;
  readonly fleet: string;
  readonly idleMs: number;
}

export const LOG_SESSION_RULES = 1;
