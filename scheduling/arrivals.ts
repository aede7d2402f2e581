/**
 * @file Jobs that are still to come, drawn at random from those that came lately: how often, of which class, tenant and size.
 *
 * What came is known whole since the oldest note that is kept of its class: whoever came later waits, runs, or has a note.
 * Times between arrivals are exponential with the mean of that span; what arrives is one of those that came. A rush or a lull does not
 * last for ever: that it goes on has no better evidence than how long it was seen, so it goes on for as long again in the median
 * (P(longer than t) = span / (span + t)), and whoever comes after that is left out of account: a rush that never ended would fill any fleet.
 */

import type { JobClass } from "../domain/job.ts";
import { JOB_CLASSES } from "../domain/job.ts";
import type { TenantId } from "../domain/ids.ts";
import type { Random } from "../lib/random.ts";
import type { Ledger } from "./ledger.ts";
import { MAX_RUN_NOTES } from "./runs.ts";

export interface Arrival {
  readonly class: JobClass;
  readonly tenant: TenantId;
  readonly gpus: number;
  readonly timeLimitMs?: number;
}

export interface ArrivalStream {
  readonly class: JobClass;
  readonly meanMs: number;
  readonly draw: (random: Random) => Arrival;
  /** How much longer it goes on. */
  readonly lastsMs: (random: Random) => number;
}

/** Fewer say nothing of how often. */
const MIN_ARRIVALS = 3;

export function arrivalsOf(ledger: Ledger, nowMs: number): readonly ArrivalStream[] {
  return JOB_CLASSES.flatMap((jobClass): ArrivalStream[] => {
    const came = cameOf(ledger, jobClass);
    const notes = (ledger.runs ?? []).filter((note) => note.class === jobClass);
    const [oldest] = notes;
    const isFull = notes.length >= MAX_RUN_NOTES && oldest !== undefined;
    const fromMs = isFull
      ? oldest.endedAtMs
      : came.reduce((first, { atMs }) => Math.min(first, atMs), nowMs);
    const lately = came.filter(({ atMs }) => atMs >= fromMs && atMs <= nowMs);
    const [first] = lately;
    if (first === undefined || lately.length < MIN_ARRIVALS || nowMs <= fromMs) return [];
    const spanMs = nowMs - fromMs;
    return [
      {
        class: jobClass,
        meanMs: spanMs / lately.length,
        draw: (random) => (lately[random.below(lately.length)] ?? first).arrival,
        lastsMs: (random) => spanMs * (1 / (1 - random.unit()) - 1),
      },
    ];
  });
}

interface Came {
  readonly atMs: number;
  readonly arrival: Arrival;
}

function cameOf({ runs = [], leases, requests }: Ledger, jobClass: JobClass): readonly Came[] {
  const came: Came[] = [];
  const jobs = new Set<string>();
  const note = (atMs: number, { timeLimitMs, ...arrival }: Loose): void => {
    came.push({ atMs, arrival: { ...arrival, ...(timeLimitMs !== undefined && { timeLimitMs }) } });
  };
  for (const { submittedAtMs, class: of, tenant, gpus, timeLimitMs } of runs) {
    if (of === jobClass) note(submittedAtMs, { class: of, tenant, gpus, timeLimitMs });
  }
  // Tasks of arrays come one after the other by themselves.
  for (const { class: of, tenant, terms, slots, jobId, state } of leases.values()) {
    if (of !== jobClass || terms === undefined || slots !== undefined || state === "vacating")
      continue;
    jobs.add(jobId);
    const { gang, timeLimitMs, submittedAtMs } = terms;
    note(submittedAtMs, { class: of, tenant, gpus: gang.gpus, timeLimitMs });
  }
  for (const { class: of, tenant, gang, slots, jobId, ...request } of requests.values()) {
    if (of !== jobClass || slots !== undefined || jobs.has(jobId)) continue;
    const { timeLimitMs, submittedAtMs } = request;
    note(submittedAtMs, { class: of, tenant, gpus: gang.gpus, timeLimitMs });
  }
  return came;
}

type Loose = Omit<Arrival, "timeLimitMs"> & { readonly timeLimitMs: number | undefined };
