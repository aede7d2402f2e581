/**
 * @file The fleet's own start estimates as numbers of a packed ledger, and back: six each, times as differences.
 *
 * When it was asked, after the former; then its three times, and when it started, after the question; last, whose request it is,
 * by its place. What is infinite or is not there is -1.
 */

import type { JobId } from "../domain/ids.ts";
import type { PendingRequest } from "../domain/plan.ts";
import type { Foreseen } from "./foreseen.ts";
import { entry, orphan } from "./packed-values.ts";

const NONE = -1;
const WIDTH = 6;

export const packForeseen = (
  foreseen: readonly Foreseen[],
  places: ReadonlyMap<JobId, number>,
): readonly number[] =>
  foreseen.flatMap(({ askedAtMs, fromMs, medianMs, toMs, outcome }, at) => {
    const since = (atMs: number): number => (atMs < Infinity ? atMs - askedAtMs : NONE);
    return [
      askedAtMs - (foreseen[at - 1]?.askedAtMs ?? 0),
      since(fromMs),
      since(medianMs),
      since(toMs),
      outcome.kind === "started" ? since(outcome.atMs) : NONE,
      outcome.kind === "waits" ? (places.get(outcome.jobId) ?? orphan(outcome.jobId)) : NONE,
    ];
  });

export function unpackForeseen(
  numbers: readonly number[],
  requests: readonly PendingRequest[],
): readonly Foreseen[] {
  const foreseen: Foreseen[] = [];
  for (let at = 0; at < numbers.length; at += WIDTH) {
    const askedAtMs = (foreseen.at(-1)?.askedAtMs ?? 0) + entry(numbers, at);
    const after = (column: number): number => {
      const sinceMs = entry(numbers, at + column);
      return sinceMs === NONE ? Infinity : askedAtMs + sinceMs;
    };
    const place = entry(numbers, at + 5);
    foreseen.push({
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
  return foreseen;
}
