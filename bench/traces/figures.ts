/**
 * @file The figures of one simulation of `bench traces`.
 *
 * *Completion*: submission to end. *Wait*: all time in the queue. *Bounded slowdown*: completion ÷ the longer of run time and ten seconds,
 * at least 1. *Run ÷ ideal*: time on GPUs, starts and checkpoints included, ÷ run time at the best spread; of gangs of two and more,
 * weighted by GPUs. *Share*: GPU time got ÷ entitlement (watch.ts), least tenant with 1 % of all entitlement or more. *Jain*: of 1 ÷ mean
 * bounded slowdown of each tenant with five jobs or more. *Idle* and what else GPUs did: shares of the fleet's time until the last arrival.
 */

import type { SimulationResult } from "../../simulator/result.ts";
import { mean, quantile } from "../statistics.ts";
import type { Watched } from "./watch.ts";

export interface Figures {
  /** Hours. */
  readonly mean: number;
  readonly median: number;
  readonly p99: number;
  readonly wait: number;
  readonly slowdown: number;
  readonly slowdownP999: number;
  readonly runOverIdeal: number;
  /** Shares from 0 to 1. */
  readonly net: number;
  readonly idle: number;
  readonly idleByCount: number;
  readonly vacating: number;
  readonly reserve: number;
  readonly share: number;
  readonly jain: number;
  readonly preemptions: number;
  readonly unfinished: number;
}

const HOUR_MS = 3_600_000;
const FLOOR_MS = 10_000;
const LEAST_ENTITLED = 0.01;
const LEAST_JOBS = 5;

export function figuresOf(result: SimulationResult, watched: Watched): Figures {
  const rows = (result.jobRows ?? []).flatMap(({ endedAtMs, ...row }) =>
    endedAtMs === null ? [] : [{ ...row, endedAtMs }],
  );
  const completions = rows.map(({ endedAtMs, submittedAtMs }) => endedAtMs - submittedAtMs);
  const slowdowns = rows.map(({ durationMs }, at) =>
    Math.max(1, (completions[at] ?? 0) / Math.max(durationMs, FLOOR_MS)),
  );
  let ran = 0;
  let ideal = 0;
  const byTenant = new Map<string, number[]>();
  for (const [at, { gpus, durationMs, queuedMs, tenant }] of rows.entries()) {
    if (gpus > 1) {
      ran += gpus * ((completions[at] ?? 0) - queuedMs);
      ideal += gpus * durationMs;
    }
    const own = byTenant.get(tenant) ?? [];
    own.push(slowdowns[at] ?? 1);
    byTenant.set(tenant, own);
  }
  const { held, entitled, total, idle, idleByCount, vacating, reserve } = watched;
  const { preemption, jobs } = result;
  return {
    mean: mean(completions) / HOUR_MS,
    median: quantile(completions, 0.5) / HOUR_MS,
    p99: quantile(completions, 0.99) / HOUR_MS,
    wait: mean(rows.map(({ queuedMs }) => queuedMs)) / HOUR_MS,
    slowdown: mean(slowdowns),
    slowdownP999: quantile(slowdowns, 0.999),
    runOverIdeal: ideal > 0 ? ran / ideal : 1,
    net: result.utilisationAtBestSpread,
    idle: idle / total,
    idleByCount: idleByCount / total,
    vacating: vacating / total,
    reserve: reserve / total,
    share: leastShare(held, entitled),
    jain: jainOf(
      [...byTenant.values()]
        .filter(({ length }) => length >= LEAST_JOBS)
        .map((own) => 1 / mean(own)),
    ),
    preemptions: preemption.evictions + preemption.recalls,
    unfinished: jobs.submitted - jobs.ended,
  };
}

function leastShare(
  held: ReadonlyMap<string, number>,
  entitled: ReadonlyMap<string, number>,
): number {
  const all = [...entitled.values()].reduce((sum, gpuSeconds) => sum + gpuSeconds, 0);
  let least = Infinity;
  for (const [tenant, due] of entitled)
    if (due >= LEAST_ENTITLED * all) least = Math.min(least, (held.get(tenant) ?? 0) / due);
  return least;
}

function jainOf(values: readonly number[]): number {
  const sum = values.reduce((all, value) => all + value, 0);
  const squares = values.reduce((all, value) => all + value * value, 0);
  return squares > 0 ? (sum * sum) / (values.length * squares) : 1;
}
