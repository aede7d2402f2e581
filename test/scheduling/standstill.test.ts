/** @file Passes that a cycle spares itself: after a standstill one more finds the very same. */
import { describe, expect, test } from "vitest";
import { FROZEN_MIX } from "../../bench/queue/mix.ts";
import { openBrain } from "../../scheduling/brain.ts";
import { keepLatencyReserve } from "../../scheduling/cycle-latency.ts";
import { openRun, type CycleRun } from "../../scheduling/cycle-run.ts";
import { grantReserved } from "../../scheduling/cycle-grants.ts";
import { DECIDE_LIMITS } from "../../scheduling/decide.ts";
import type { Ledger } from "../../scheduling/ledger.ts";
import { tawfq, tawfqLending } from "../../scheduling/policy-sets.ts";
import { isStandstill, standOf } from "../../scheduling/standstill.ts";
import { walkLine } from "../../scheduling/turns.ts";
import { brainBut, brainWith } from "../../simulator/brain.ts";
import { fleetOf } from "../../simulator/paper-fleet.ts";
import { drawPaperMix } from "../../simulator/paper-mix.ts";
import { runSimulation } from "../../simulator/simulate.ts";

const GPUS = 96;
const LIMITS = { ...DECIDE_LIMITS, maxReasons: 0, freshReasons: 0 };

/** What a pass has made of the cycle so far, as its plan will say it. */
const decidedIn = ({ grants, evict, evictReserve, heads, wakeAtMs }: CycleRun): string =>
  JSON.stringify([grants, evict, evictReserve, [...heads.now], wakeAtMs]);

describe("a standstill", () => {
  test.each([
    { name: "tawfq", policies: tawfq, wantSpared: 0 },
    { name: "tawfq, lending", policies: tawfqLending, wantSpared: 0 },
    // Whose heads hold parts of places, which each pass plans anew.
    {
      name: "heads that hold parts",
      policies: { ...tawfq, backfill: "conservative" },
      wantSpared: 1,
    },
  ] as const)("is one: with $name another pass decides nothing", ({ policies, wantSpared }) => {
    const passes = { spared: 0, needed: 0 };
    const check = (snapshot: Ledger, nowMs: number): void => {
      const options = { policies, ports: {}, limits: LIMITS, method: "decide" } as const;
      const run = openRun(openBrain(snapshot, policies.queue), { snapshot, nowMs }, options);
      keepLatencyReserve(run);
      grantReserved(run);
      for (let pass = 1; pass < 4; pass += 1) {
        const before = standOf(run);
        const { opened } = run.heads;
        walkLine(run, pass);
        if (run.heads.opened === opened) return;
        if (!isStandstill(run, before)) {
          passes.needed += 1;
          continue;
        }
        passes.spared += 1;
        const decided = decidedIn(run);
        walkLine(run, pass + 1);
        expect(decidedIn(run)).toBe(decided);
        return;
      }
    };
    const sizes = FROZEN_MIX.classes.training.sizes.map(
      ([gpus, weight]) => [Math.max(1, Math.round(gpus / 16)), weight] as const,
    );
    const training = { ...FROZEN_MIX.classes.training, sizes };
    const classes = { ...FROZEN_MIX.classes, training };
    const mix = { ...FROZEN_MIX, classes, gpus: GPUS, jobs: 40, spanningFromGpus: 32 };
    const workload = drawPaperMix(mix, 2);
    runSimulation({
      fleet: fleetOf([GPUS / 3, GPUS / 3, GPUS / 3], { tenants: workload.tenants }),
      workload,
      policy: "tawfq",
      seed: 2,
      openBrain: (ledger) => {
        const brain = brainWith(policies)(ledger);
        return brainBut(brain, {
          decide(nowMs) {
            check(brain.ledger, nowMs);
            return brain.decide(nowMs);
          },
        });
      },
    });
    expect(passes.spared).toBeGreaterThanOrEqual(wantSpared);
    expect(passes.needed).toBeGreaterThan(0);
  });
});
