/** @file Orders of people about one job that is not over: other settings, a pause, another start. Each names its author. */

import type { JobChanges } from "../domain/job/amendment.ts";

/** Who gives the order, in his or her own word. */
export interface Ordered {
  readonly by: string;
}

export interface AmendOrder extends Ordered {
  readonly changes: JobChanges;
  /** Amendments that the author knew of: those since then may contradict the order, or void its signature. */
  readonly basis: number;
  /** The author's signature over the job with its new settings, where those are signed; made for this run of the job's workflow. */
  readonly proof?: string;
}

export interface MoveOrder extends Ordered {
  /** Which fleet is to have the job. */
  readonly fleet: string;
}

/** A job that is on its way to another fleet. */
export interface Moving extends Ordered {
  readonly to: string;
  readonly atMs: number;
}

/** Memo of the job's workflow: the last signatures of amendments, newest last. */
export const AMENDED_MEMO = "orbweaverAmendedProofs";
export const MAX_PROOFS = 8;

/** A job is held, or gives up its run, because somebody wants it. */
export interface Pause extends Ordered {
  readonly atMs: number;
  readonly kind: "hold" | "suspend";
}

/** Why a run was ended although nothing failed, and no other job wants its GPUs. */
export interface GivenUp extends Ordered {
  readonly atMs: number;
  readonly kind: "suspend" | "requeue" | "move";
}

/** What becomes of a job whose run is given up so. */
export const GIVEN_UP = Object.freeze({
  suspend: "suspended",
  requeue: "requeued",
  move: "moved",
} as const satisfies Record<GivenUp["kind"], string>);

const MAX_NAME = 64;

/** What a message says of its author; undefined where it says nothing readable. */
export function authorIn(value: unknown): string | undefined {
  if (typeof value !== "object" || value === null || !("by" in value)) return undefined;
  const { by } = value;
  return typeof by === "string" && by !== "" ? by.slice(0, MAX_NAME) : undefined;
}
