/**
 * @file How much of what leases hold was used: sums what agents tell over time. Pure.
 *
 * Between two looks the later one counts, for half a minute at most: a beat tells the mean of the last half minute, and of a longer gap nothing is known.
 */

import { usesIn } from "../../domain/lease/gpu-use.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import type { FleetUse } from "./follow-use.ts";

/** What is added to a lease. GPU-milliseconds. */
export interface AddedUse {
  readonly job: string;
  readonly run: string;
  readonly lease: string;
  /** Time × GPUs × the share in use. */
  readonly usedMs: number;
  /** Time × GPUs of which agents told. */
  readonly toldMs: number;
  /** The time that it is of, as of this clock: what others have added of that time is not added again. */
  readonly fromMs: number;
  readonly untilMs: number;
}

export interface UseBook {
  /** To be called with each look of `followUse`; of the first one nothing is known, as of GPUs whose lease is being given back. */
  readonly look: (
    { leases }: Pick<Ledger, "leases">,
    use: FleetUse,
    nowMs: number,
  ) => readonly AddedUse[];
}

const MOST_GAP_MS = 30_000;

export function createUseBook(): UseBook {
  let lastMs: number | undefined;
  return {
    look({ leases }, use, nowMs) {
      const sinceMs = Math.max(lastMs ?? nowMs, nowMs - MOST_GAP_MS);
      lastMs = nowMs;
      if (use.size === 0) return [];
      return [...leases.values()].flatMap(({ jobId, runId, id, gpus, state, grantedAtMs }) => {
        const fromMs = Math.max(sinceMs, grantedAtMs);
        const ms = nowMs - fromMs;
        if (state !== "held" || ms <= 0) return [];
        const told = gpus.flatMap(({ host, mask }) => usesIn(use.get(host), mask));
        if (told.length === 0) return [];
        const usedMs = told.reduce((sum, one) => sum + one.use * ms, 0);
        const toldMs = told.length * ms;
        return [{ job: jobId, run: runId, lease: id, usedMs, toldMs, fromMs, untilMs: nowMs }];
      });
    },
  };
}
