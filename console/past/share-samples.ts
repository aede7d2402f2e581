/**
 * @file What tenants held and were due over time, by samples of the followed ledger in the fleet's own time. Pure.
 *
 * Samples are evenly apart. When there are too many, every second one goes and the next ones are twice as far apart, so the whole time that
 * was followed stays in sight. Cost: O(ledger) for each sample.
 */

import type { ShareSample, TenantShare } from "../../page/wire.ts";
import { sharesNow } from "../../scheduling/explain/queue-order.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";

export interface ShareSamples {
  /** The ledger at a time; times go up. */
  readonly see: (ledger: Ledger, atMs: number) => void;
  readonly all: () => readonly ShareSample[];
}

const FIRST_STEP_MS = 5_000;
const MOST_SAMPLES = 480;
/** Those that hold, wait for or are due most. */
const MOST_TENANTS = 50;

export function createShareSamples({
  firstStepMs = FIRST_STEP_MS,
  most = MOST_SAMPLES,
}: { readonly firstStepMs?: number; readonly most?: number } = {}): ShareSamples {
  let samples: ShareSample[] = [];
  let stepMs = firstStepMs;
  let nextMs = 0;
  return {
    see(ledger, atMs) {
      if (atMs < nextMs) return;
      samples.push({ atMs, tenants: sharesOf(ledger, atMs) });
      if (samples.length >= most) {
        samples = samples.filter((_, at) => at % 2 === 0);
        stepMs *= 2;
      }
      nextMs = (samples.at(-1)?.atMs ?? atMs) + stepMs;
    },
    all: () => samples,
  };
}

function sharesOf(ledger: Ledger, atMs: number): Record<string, TenantShare> {
  const shares = new Map<string, TenantShare>();
  for (const { tenants } of sharesNow(ledger, atMs).classes)
    for (const { tenant, runningGpus, dueGpus, waiting } of tenants) {
      const [held, due, waits] = shares.get(tenant) ?? [0, 0, 0];
      shares.set(tenant, [held + runningGpus, tenths(due + dueGpus), waits + waiting]);
    }
  const size = ([held, due]: TenantShare): number => Math.max(held, due);
  const largest = [...shares].sort(
    ([one, a], [other, b]) => size(b) - size(a) || (one < other ? -1 : 1),
  );
  return Object.fromEntries(largest.slice(0, MOST_TENANTS));
}

const tenths = (gpus: number): number => Math.round(gpus * 10) / 10;
