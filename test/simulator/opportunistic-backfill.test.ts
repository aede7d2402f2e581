/** @file Laws of loans over random workloads: each is called in for a start that follows, and nothing is refused. */
import fc from "fast-check";
import { expect, test } from "vitest";
import type { JobId } from "../../domain/values/ids.ts";
import { checkLedger } from "../../scheduling/ledger/apply/apply.ts";
import { tawfq } from "../../scheduling/cycle/policy-sets.ts";
import { schedulerBut, schedulerWith, type OpenScheduler } from "../../simulator/scheduler.ts";
import { runSimulation } from "../../simulator/simulate.ts";
import { drawPaperMix } from "../../simulator/paper-mix.ts";
import { FROZEN_MIX } from "../../simulator/entrants/frozen-mix.ts";
import { fleetShape } from "../scheduling/builders.ts";

const HOSTS = 12;
const CHECKPOINT_MS = 2_000;
/** A decision, the cycle after the last borrower has stopped, and its decision. */
const CYCLES_MS = 50;
const { classes } = FROZEN_MIX;
const SIZES = [
  [4, 2],
  [8, 4],
  [16, 3],
  [24, 2],
  [48, 2],
  [80, 1],
] as const;

interface Seen {
  loans: number;
  recalls: number;
  starts: number;
}

/** Watches that whoever calls loans in starts when the borrowers have written their checkpoints. */
const watched =
  (open: OpenScheduler, seen: Seen): OpenScheduler =>
  (ledger) => {
    const scheduler = open(ledger);
    const calledAtMs = new Map<JobId, number>();
    return schedulerBut(scheduler, {
      apply(event) {
        const calls = event.kind === "plan" ? (event.plan.evict ?? []) : [];
        const loans = calls.filter(
          // Not those in the name of a job that runs, which refill the inference headroom.
          ({ lease, forJob }) =>
            scheduler.ledger.leases.get(lease)?.opportunistic !== undefined &&
            scheduler.ledger.requests.has(forJob),
        );
        const applied = scheduler.apply(event);
        if (event.kind !== "plan") return applied;
        const broken = [
          ...applied.refusals.map(({ message }) => message),
          ...checkLedger(scheduler.ledger),
        ];
        if (broken.length > 0) expect(broken).toEqual([]);
        for (const { request, isOpportunistic } of event.plan.items) {
          if (isOpportunistic === true) seen.loans += 1;
          if (calledAtMs.delete(request.jobId)) seen.starts += 1;
        }
        for (const { forJob } of loans) {
          seen.recalls += 1;
          calledAtMs.set(forJob, event.nowMs);
        }
        const late = [...calledAtMs].filter(
          ([, atMs]) => event.nowMs - atMs > CHECKPOINT_MS + CYCLES_MS,
        );
        if (late.length > 0) expect(late).toEqual([]);
        return applied;
      },
    });
  };

test("whoever calls a loan in starts one checkpoint later, and nothing of it is refused", () => {
  const seen: Seen = { loans: 0, recalls: 0, starts: 0 };
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 1e6 }), (seed) => {
      const training = { ...classes.training, sizes: SIZES, loadShare: 0.95 };
      const mix = { ...FROZEN_MIX, gpus: 8 * HOSTS, jobs: 60, offeredLoad: 1.2 };
      const workload = drawPaperMix({ ...mix, classes: { ...classes, training } }, seed);
      runSimulation({
        fleet: fleetShape([{ hosts: Array.from({ length: HOSTS }, () => ({})) }]),
        workload,
        policy: "tawfq",
        openScheduler: watched(schedulerWith(tawfq), seen),
        seed,
        costs: { checkpointMs: CHECKPOINT_MS },
        samples: 2,
      });
    }),
    { numRuns: 10, endOnFailure: true },
  );
  expect(seen.loans).toBeGreaterThan(5);
  expect(seen.recalls).toBeGreaterThan(2);
  expect(seen.starts).toBeGreaterThan(0);
});
