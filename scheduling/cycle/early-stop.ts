/**
 * @file When an admission pass stops, or skips a request, before the queue is at its end: where no GPU is left that any request could use.
 *
 * Where the pass reports why requests wait, the front of the queue is looked at anyway, until the plan holds as many reasons as it may.
 * Cost: O(pools) a request.
 */

import type { JobId } from "../../domain/values/ids.ts";
import { isServedInTurn, type WaitCode } from "../admission/feasibility.ts";
import { isAnyKeptOpen, isAnyOpenTo } from "../reservation/access.ts";
import { opportunisticFor } from "../reservation/opportunistic-backfill.ts";
import {
  hasRoom,
  INFERENCE_HEADROOM,
  reservationOf,
  type ReservationSet,
} from "../reservation/reservation-set.ts";
import type { CycleInput } from "./cycle-input.ts";
import { fleetCounts } from "./fleet-counts.ts";
import type { CycleParts } from "./parts.ts";
import { fewestGpus } from "./scheduler-cache.ts";

/** `report-and-stop`: requests that were never told anything are told now, although the pass does not come to them. */
export type Step = "nominate" | "skip" | "stop" | "report-and-stop";

/** Requests that are looked at while nothing but opportunistic backfill is left: few of them may run so. */
const OPPORTUNISTIC_ATTEMPTS = 200;
/** Requests from the front of the queue that are looked at for their reports while no GPU is left. */
const FRONT = 1_000;

export interface EarlyStop {
  readonly next: (job: JobId, position: number) => Step;
  /** The first pass nominates whichever request comes next: GPUs are left for some, or a job with a reservation is to come and may get some. */
  readonly isFarOff: () => boolean;
  /** After a request that waits by this code: whether it blocks the queue, and the pass ends. */
  readonly blocks: (job: JobId, code: WaitCode) => boolean;
  /** Whether an earlier request blocks the queue. */
  readonly isBlocked: () => boolean;
}

interface TakenNow {
  readonly version: number;
  readonly changes: number;
  readonly visited: number;
  readonly may: boolean;
}

export interface PassState {
  /** 1 for the first pass of the cycle. */
  readonly pass: number;
  /** Jobs with backfill reservations that the pass has still to look at. */
  readonly unvisited: ReadonlySet<JobId>;
}

export function openEarlyStop(
  input: CycleInput,
  { plan, reservations, reports, preemption }: CycleParts,
  { pass, unvisited }: PassState,
): EarlyStop {
  const { cache, options, isReporting } = input;
  const { policies, limits, onlyFor } = options;
  const isWhole = onlyFor === undefined;
  // The first pass has told all requests, or as many as it may.
  const isReportingNow = isReporting && (pass === 1 || !isWhole);
  const fewest = fewestGpus(cache);
  let opportunisticAttempts = 0;
  let isClosed = false;
  /** `mayTakeReserved`, at the counts of changes that it depends on. */
  let taken: TakenNow | undefined;
  return {
    next(job, position) {
      if (!isReportingNow && isOver()) return "stop";
      if (pass > 1 && isWhole && isIdle()) return "stop";
      if (!isReportingNow || !isWhole || !isReported(position)) return "nominate";
      if (isOver()) return "report-and-stop";
      // No request from here on can start, but one with a reservation may still find a better one.
      return !unvisited.has(job) && isIdle() ? "skip" : "nominate";
    },
    isFarOff: () => mayUse(fewest) || (unvisited.size > 0 && !isIdle()),
    blocks(job, code) {
      if (policies.backfill !== "none" || !isServedInTurn(code)) return false;
      isClosed = true;
      reports.noteBlocker(job);
      return !isReporting && isWhole;
    },
    isBlocked: () => isClosed,
  };

  /** The plan holds as many reasons as it may, or requests behind this one are told when they come nearer to the front. */
  function isReported(position: number): boolean {
    return plan.reportCount() >= limits.maxReasons || position > FRONT;
  }

  /** Nothing is left that any waiting request could use. */
  function isOver(): boolean {
    if (unvisited.size > 0 || mayUse(fewest)) return false;
    if (!mayTake()) return true;
    opportunisticAttempts += 1;
    return opportunisticAttempts > OPPORTUNISTIC_ATTEMPTS;
  }

  /** Not one GPU is left, not even to reserve. */
  function isIdle(): boolean {
    return !mayUse(1) && !mayTake();
  }

  /** Whether so many GPUs are open, or could be reserved. */
  function mayUse(gpus: number): boolean {
    const { open, reservable } = fleetCounts(cache.capacity);
    return open >= gpus || (hasRoom(reservations) && reservable >= gpus);
  }

  /** Whether a request might use GPUs that are reserved, or preempt others. */
  function mayTake(): boolean {
    const hasHeadroom = reservationOf(reservations, INFERENCE_HEADROOM) !== undefined;
    return (
      (hasHeadroom && cache.inference.size > 0) || preemption.hasSearches() || mayTakeReserved()
    );
  }

  /** Cost: O(1) until something changes. */
  function mayTakeReserved(): boolean {
    const { version } = cache.capacity;
    const { changes, visited } = reservations;
    const isKnown =
      taken?.version === version && taken.changes === changes && taken.visited === visited.size;
    if (taken === undefined || !isKnown) {
      const mayKept = cache.inference.size > 0 && isAnyKeptOpen(reservations);
      const may = isAnyOpenTo(reservations, 0) || isAnyIdle(input, reservations) || mayKept;
      taken = { version, changes, visited: visited.size, may };
    }
    return taken.may;
  }
}

/** Whether reserved GPUs wait idle that some job might use opportunistically. */
export const isAnyIdle = (input: CycleInput, reservations: ReservationSet): boolean =>
  input.isOpportunistic && opportunisticFor(reservations, input.view).length > 0;
