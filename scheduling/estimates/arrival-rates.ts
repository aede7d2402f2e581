/**
 * @file Draws future arrivals from the recent ones: their rate, class, tenant and size.
 *
 * All arrivals of a class are known since its oldest kept note, because every later job waits, runs or has a note. Times between
 * arrivals are exponential with the mean of that span, and each arrival is a copy of a recent one. The stream ends after a drawn time
 * whose median is the observed span (P(longer than t) = span / (span + t)): a rate has no better evidence than the time for which it
 * was seen, and a rush without end would fill any fleet. Cost: O(notes + leases + requests) to open, O(1) a draw.
 */

import type { JobClass } from "../../domain/job/job.ts";
import { JOB_CLASSES } from "../../domain/job/job.ts";
import type { TenantId } from "../../domain/values/ids.ts";
import type { Random } from "../../lib/random.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { MAX_RUN_NOTES } from "../ledger/rules/run-history.ts";

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
  /** Draws the time for which the stream continues. */
  readonly lastsMs: (random: Random) => number;
}

/** Fewer arrivals give no rate. */
const MIN_ARRIVALS = 3;

export function arrivalsOf(ledger: Ledger, nowMs: number): readonly ArrivalStream[] {
  return JOB_CLASSES.flatMap((jobClass): ArrivalStream[] => {
    const known = knownArrivals(ledger, jobClass);
    const notes = (ledger.runs ?? []).filter((note) => note.class === jobClass);
    const [oldest] = notes;
    const isFull = notes.length >= MAX_RUN_NOTES && oldest !== undefined;
    const fromMs = isFull
      ? oldest.endedAtMs
      : known.reduce((first, { atMs }) => Math.min(first, atMs), nowMs);
    const recent = known.filter(({ atMs }) => atMs >= fromMs && atMs <= nowMs);
    const [first] = recent;
    if (first === undefined || recent.length < MIN_ARRIVALS || nowMs <= fromMs) return [];
    const spanMs = nowMs - fromMs;
    return [
      {
        class: jobClass,
        meanMs: spanMs / recent.length,
        draw: (random) => (recent[random.below(recent.length)] ?? first).arrival,
        lastsMs: (random) => spanMs * (1 / (1 - random.unit()) - 1),
      },
    ];
  });
}

interface KnownArrival {
  readonly atMs: number;
  readonly arrival: Arrival;
}

function knownArrivals(
  { runs = [], leases, requests }: Ledger,
  jobClass: JobClass,
): readonly KnownArrival[] {
  const known: KnownArrival[] = [];
  const jobs = new Set<string>();
  const note = (atMs: number, { timeLimitMs, ...arrival }: Loose): void => {
    known.push({
      atMs,
      arrival: { ...arrival, ...(timeLimitMs !== undefined && { timeLimitMs }) },
    });
  };
  for (const { submittedAtMs, class: of, tenant, gpus, timeLimitMs } of runs) {
    if (of === jobClass) note(submittedAtMs, { class: of, tenant, gpus, timeLimitMs });
  }
  // The tasks of an array arrive by themselves, one after the other.
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
  return known;
}

type Loose = Omit<Arrival, "timeLimitMs"> & { readonly timeLimitMs: number | undefined };
