/**
 * @file Packs the fleet's own start estimates as numbers, and unpacks them: six each, times as differences.
 *
 * The time of the question, relative to the former one; the three estimated times and the start, relative to the question; and the place
 * of the request. Infinite or absent values are -1. Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import type { JobId } from "../../domain/values/ids.ts";
import type { PendingRequest } from "../../domain/lease/plan.ts";
import type { KeptEstimate } from "./rules/start-estimates.ts";
import { entry, orphan } from "./codec-values.ts";

const NONE = -1;
const WIDTH = 6;

export const packStartEstimates = (
  ownEstimates: readonly KeptEstimate[],
  places: Pick<ReadonlyMap<JobId, number>, "get">,
): readonly number[] =>
  ownEstimates.flatMap(({ askedAtMs, fromMs, medianMs, toMs, outcome }, at) => {
    const since = (atMs: number): number => (atMs < Infinity ? atMs - askedAtMs : NONE);
    return [
      askedAtMs - (ownEstimates[at - 1]?.askedAtMs ?? 0),
      since(fromMs),
      since(medianMs),
      since(toMs),
      outcome.kind === "started" ? since(outcome.atMs) : NONE,
      outcome.kind === "waits" ? (places.get(outcome.jobId) ?? orphan(outcome.jobId)) : NONE,
    ];
  });

export function unpackStartEstimates(
  numbers: readonly number[],
  requests: readonly PendingRequest[],
): readonly KeptEstimate[] {
  const ownEstimates: KeptEstimate[] = [];
  for (let at = 0; at < numbers.length; at += WIDTH) {
    const askedAtMs = (ownEstimates.at(-1)?.askedAtMs ?? 0) + entry(numbers, at);
    const after = (column: number): number => {
      const sinceMs = entry(numbers, at + column);
      return sinceMs === NONE ? Infinity : askedAtMs + sinceMs;
    };
    const place = entry(numbers, at + 5);
    ownEstimates.push({
      askedAtMs,
      fromMs: after(1),
      medianMs: after(2),
      toMs: after(3),
      outcome:
        place === NONE
          ? { kind: "started", atMs: after(4) }
          : { kind: "waits", jobId: entry(requests, place).jobId },
    });
  }
  return ownEstimates;
}
