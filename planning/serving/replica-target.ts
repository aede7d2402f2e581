/**
 * @file How many replicas a service needs now, by the requests that come and by those that it has, in service and waiting.
 *
 * *By rate*, where it is known which rate one replica keeps (`plan-serving.ts`): requests of the last `longMs`, a second. A change shows in the last `shortMs`
 * first: the long count is drawn into z standard deviations around the short one (of a Poisson count, its root), so that chance in few requests moves
 * nothing, and a burst counts within a second or two. *By load*: as many replicas as have slots for the requests in service, which long
 * answers need; beside a rate, only if there is more than replicas of that rate hold. *By the line*: those that wait longer than others are to be
 * answered within `catchUpMs`.
 *
 * More are wanted at once. Fewer are wanted when the most of the last `calmMs` needs fewer. Load says little of a replica that is far from full, because
 * answers are quicker there: without a rate one fewer is wanted at a time. Without a request for the rule's `idleMs` none is. Cost: O(samples).
 */

import type { ReplicaRule } from "../../domain/job/service-rule.ts";
import type { ReplicaTerms } from "./replica-terms.ts";

export interface ScaleOptions {
  readonly longMs: number;
  readonly shortMs: number;
  readonly z: number;
  readonly calmMs: number;
  readonly catchUpMs: number;
}

/** Set on seeds 1 to 3 of `bench replicas`, and judged on others. */
export const SCALE: ScaleOptions = Object.freeze({
  longMs: 10_000,
  shortMs: 1_000,
  z: 2,
  calmMs: 2_000,
  catchUpMs: 1_000,
});

export interface LoadSample {
  readonly atMs: number;
  readonly inService: number;
  readonly waiting: number;
  /** Requests that have come since the start. */
  readonly came: number;
}

export interface ServiceLoad {
  /** In the order of time, those of `longMs` at least; the last one is of now. */
  readonly samples: readonly LoadSample[];
  /** Of one replica. */
  readonly terms: Pick<ReplicaTerms, "slots" | "ratePerS">;
  /** Replicas that are there or start. */
  readonly replicas: number;
  /** The end of the last request, or the start of the service. */
  readonly lastRequestMs: number;
}

export function replicaTarget(
  { min, max, idleMs }: ReplicaRule,
  { samples, terms, replicas, lastRequestMs }: ServiceLoad,
  options: ScaleOptions = SCALE,
): number {
  const now = samples.at(-1);
  if (now === undefined) return Math.min(max, Math.max(min, replicas));
  const needs = (at: number): number => neededAt(samples, at, { terms, options });
  const recent = samples.findIndex(({ atMs }) => atMs >= now.atMs - options.calmMs);
  let most = 0;
  for (let at = recent; at < samples.length; at += 1) most = Math.max(most, needs(at));
  const isIdle =
    now.inService + now.waiting === 0 && idleMs !== undefined && now.atMs - lastRequestMs >= idleMs;
  if (isIdle) return Math.min(max, min);
  const needed = Math.max(1, most);
  const isGuess = terms.ratePerS === undefined && needed < replicas;
  return Math.min(max, Math.max(min, isGuess ? replicas - 1 : needed));
}

interface Needs {
  readonly terms: ServiceLoad["terms"];
  readonly options: ScaleOptions;
}

function neededAt(
  samples: readonly LoadSample[],
  at: number,
  { terms: { slots, ratePerS }, options }: Needs,
): number {
  const now = samples[at];
  if (now === undefined) return 0;
  const byLoad = Math.ceil((now.inService + now.waiting) / slots);
  if (ratePerS === undefined) return byLoad;
  const { longMs, shortMs, z, catchUpMs } = options;
  const long = cameWithin(samples, at, longMs);
  const short = cameWithin(samples, at, shortMs);
  const chance = z * Math.sqrt(Math.max(1, short.count));
  const perMs = Math.min(
    (short.count + chance) / short.ms,
    Math.max((short.count - chance) / short.ms, long.count / long.ms),
  );
  const line = now.waiting / catchUpMs;
  return Math.max(
    Math.ceil((1_000 * (Math.max(0, perMs) + line)) / ratePerS),
    Math.ceil(now.inService / slots),
  );
}

/** Requests of the last `ms` before a sample, or of the time since the first one. */
function cameWithin(
  samples: readonly LoadSample[],
  at: number,
  ms: number,
): { readonly count: number; readonly ms: number } {
  const end = samples[at];
  if (end === undefined) return { count: 0, ms };
  let from = at;
  for (let sample = samples[from - 1]; sample !== undefined; sample = samples[from - 1]) {
    if (sample.atMs < end.atMs - ms) break;
    from -= 1;
  }
  const start = samples[from] ?? end;
  // A service that has just begun has the whole time behind it, without requests.
  return { count: end.came - start.came, ms: from === 0 ? ms : Math.max(1, end.atMs - start.atMs) };
}
