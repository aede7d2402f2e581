/**
 * @file A policy: for each kind of communicator and size band, the arm of every call, as a pure function of the call's number.
 *
 * All ranks of a communicator make the same calls in the same order, so a choice that depends only on the version and the number of a call
 * is the same on all ranks without communication. Nothing else may enter: no clock, no random number, no measurement.
 */

import type { Arm, Collective } from "../domain/bandwidth/collective-arm.ts";

/** The largest whole number that JavaScript and C both hold exactly: a band without an upper end. */
export const NO_LIMIT_BYTES = Number.MAX_SAFE_INTEGER;

export interface ArmRun {
  readonly arm: Arm;
  /** Iterations, one after the other. */
  readonly count: number;
}

export interface PolicyRow {
  readonly collective: Collective;
  readonly minBytes: number;
  /** Inclusive. */
  readonly maxBytes: number;
  /** What is used once the schedule is over. */
  readonly arm: Arm;
  readonly explore?: {
    /** Calls of this row that one iteration makes: they all get the same arm, because an iteration is what is timed. */
    readonly stride: number;
    readonly runs: readonly ArmRun[];
  };
}

export interface PolicySection {
  /** Of the placement; without blanks. */
  readonly topology: string;
  /** The section is for communicators of exactly this shape. */
  readonly nodes: number;
  readonly ranks: number;
  /** Rows of one collective do not overlap. */
  readonly rows: readonly PolicyRow[];
}

export interface Policy {
  /** Grows from policy to policy of one topology class; 0 is "no policy". */
  readonly version: number;
  /** No rank uses it for an earlier call of a communicator. */
  readonly fromCall: number;
  readonly hasOverlap: boolean;
  readonly sections: readonly PolicySection[];
}

export interface Call {
  readonly nodes: number;
  readonly ranks: number;
  readonly collective: Collective;
  readonly bytes: number;
}

/** Undefined: the policy says nothing of such calls, NCCL decides. */
export function rowFor(policy: Policy, call: Call): PolicyRow | undefined {
  const section = policy.sections.find(
    ({ nodes, ranks }) => nodes === call.nodes && ranks === call.ranks,
  );
  return section?.rows.find(
    ({ collective, minBytes, maxBytes }) =>
      collective === call.collective && minBytes <= call.bytes && call.bytes <= maxBytes,
  );
}

/** `rowCall` counts the calls of this row since the version took effect, from 0. */
export function armAt({ arm, explore }: PolicyRow, rowCall: number): Arm {
  if (explore === undefined) return arm;
  let iteration = Math.floor(rowCall / explore.stride);
  for (const run of explore.runs) {
    if (iteration < run.count) return run.arm;
    iteration -= run.count;
  }
  return arm;
}

export const exploredIterations = ({ explore }: PolicyRow): number =>
  explore === undefined ? 0 : explore.runs.reduce((sum, { count }) => sum + count, 0);
