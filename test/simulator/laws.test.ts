/** @file Laws of every simulation: a sound ledger throughout, nothing lost, GPU-seconds that add up, the same bytes from one seed. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { DEFAULT_POLICY } from "../../domain/fleet/fleet.ts";
import { JOB_CLASSES } from "../../domain/job/job.ts";
import type { Lease } from "../../domain/lease/lease.ts";
import type { JobId } from "../../domain/values/ids.ts";
import { ms } from "../../domain/values/units.ts";
import { checkLedger } from "../../scheduling/ledger/apply/apply.ts";
import * as policySets from "../../scheduling/cycle/policy-sets.ts";
import type { Policies } from "../../scheduling/cycle/cycle.ts";
import { schedulerBut, schedulerWith, type OpenScheduler } from "../../simulator/scheduler.ts";
import type { SimulationOptions } from "../../simulator/options.ts";
import { fleetOf } from "../../simulator/paper-fleet.ts";
import { runSimulation } from "../../simulator/simulate.ts";
import type { WorkloadJob } from "../../simulator/workload.ts";
import { optionsFor } from "./fixtures.ts";
import { caseCount } from "../support/case-count.ts";

const FLEET = fleetOf([32, 24]);

const jobs: fc.Arbitrary<readonly WorkloadJob[]> = fc
  .array(
    fc.record({
      gapMs: fc.integer({ min: 0, max: 4_000 }),
      durationMs: fc.integer({ min: 1, max: 60_000 }),
      gpus: fc.constantFrom(1, 1, 2, 4, 8, 12, 16, 24),
      isElastic: fc.boolean(),
      mayGrow: fc.boolean(),
      class: fc.constantFrom(...JOB_CLASSES),
      tenant: fc.constantFrom("a", "b", "c"),
      priority: fc.constantFrom(0, 0, 100),
      estimate: fc.option(fc.double({ min: 1, max: 4, noNaN: true }), { nil: undefined }),
      hasCheckpoint: fc.boolean(),
    }),
    { minLength: 2, maxLength: 30 },
  )
  .map((list) => {
    let atMs = 0;
    return list.map((drawn, at): WorkloadJob => {
      atMs += drawn.gapMs;
      const { durationMs, gpus, tenant, priority, estimate } = drawn;
      return {
        id: `j${String(at)}`,
        submittedAtMs: atMs,
        durationMs,
        gpus,
        tenant,
        priority,
        class: drawn.class,
        preemption: {
          isPreemptible: drawn.class !== "inference",
          mayShrink: false,
          minRuntimeMs: ms(0),
        },
        ...(drawn.isElastic && { minGpus: Math.ceil(gpus / 2) }),
        ...(drawn.mayGrow && { mayGrow: true }),
        ...(estimate !== undefined && { estimateMs: durationMs * estimate }),
        ...(!drawn.hasCheckpoint && { hasNoCheckpoint: true }),
      };
    });
  })
  .filter((list) => (list.at(-1)?.submittedAtMs ?? 0) > 0);

const options = fc
  .record({
    jobs,
    checkpointMs: fc.constantFrom(0, 500, 2_000),
    restartMs: fc.constantFrom(0, 300),
    deliveryMs: fc.constantFrom(0, 20),
    decisionMs: fc.constantFrom(0, 5),
    isFailing: fc.boolean(),
    seed: fc.integer({ min: 0, max: 1_000 }),
  })
  .map((drawn): SimulationOptions => {
    const { checkpointMs, restartMs, deliveryMs, decisionMs } = drawn;
    return optionsFor(drawn.jobs, {
      fleet: FLEET,
      seed: drawn.seed,
      costs: { checkpointMs, restartMs, deliveryMs, decisionMs, cycleIntervalMs: 5 },
      window: { fromShare: 0, toShare: 1 },
      ...(drawn.isFailing && {
        failures: { hostMtbfMs: 200_000, repairMs: 20_000, jobMtbfGpuMs: 1_000_000 },
      }),
    });
  });

const { fifo, fifoBackfill, binPacking, drf, easy, conservative, tawfq } = policySets;
const policies = fc.constantFrom(
  { name: "tawfq", set: tawfq },
  { name: "tawfq", set: tawfq },
  { name: "fifo", set: fifo },
  { name: "fifo-backfill", set: fifoBackfill },
  { name: "bin-packing", set: binPacking },
  { name: "drf", set: drf },
  { name: "easy", set: easy },
  { name: "conservative", set: conservative },
);

/** Looks at the ledger after every event. */
const checked =
  (set: Policies): OpenScheduler =>
  (ledger) => {
    const scheduler = schedulerWith(set)(ledger);
    return schedulerBut(scheduler, {
      apply(event) {
        const applied = scheduler.apply(event);
        const broken = checkLedger(scheduler.ledger);
        const refused = event.kind === "plan" ? applied.refusals : [];
        // An assertion for each event would take longer than the simulation.
        if (broken.length + refused.length > 0) expect({ broken, refused }).toBeUndefined();
        return applied;
      },
    });
  };

describe("whatever arrives, costs and fails", () => {
  test("the ledger keeps its invariants after every event, and every job has ended once all is over", () => {
    fc.assert(
      fc.property(options, policies, (drawn, { set }) => {
        const openScheduler = checked(set);
        const { jobs: counts, jobRows = [] } = runSimulation({ ...drawn, openScheduler });
        expect(counts).toEqual({
          submitted: drawn.workload.jobs.length,
          ended: drawn.workload.jobs.length,
          running: 0,
          waiting: 0,
        });
        const early = jobRows.filter(
          ({ submittedAtMs, firstGrantAtMs, endedAtMs, durationMs }) =>
            firstGrantAtMs === null ||
            endedAtMs === null ||
            firstGrantAtMs < submittedAtMs ||
            endedAtMs < firstGrantAtMs + durationMs - 1e-6,
        );
        expect(early).toEqual([]);
      }),
      { numRuns: caseCount(60) },
    );
  });

  test("GPU-seconds in service are what was kept, lost, spent on starts, and idle", () => {
    fc.assert(
      fc.property(options, (drawn) => {
        const result = runSimulation(drawn);
        const { gpuSeconds, utilisation, utilisationAtBestSpread, occupancy } = result;
        const { inService, ...parts } = gpuSeconds;
        const sum = Object.values(parts).reduce((total, part) => total + part, 0);
        expect(sum).toBeCloseTo(inService, 6);
        for (const part of Object.values(parts)) expect(part).toBeGreaterThan(-1e-6);
        expect(utilisation).toBeLessThanOrEqual(occupancy + 1e-9);
        expect(utilisationAtBestSpread).toBeLessThanOrEqual(utilisation + 1e-9);
        expect(result.trainingLost).toBeLessThanOrEqual(1);
      }),
      { numRuns: caseCount(60) },
    );
  });

  test("no job is preempted more often, or sooner again, than the fleet's policy says", () => {
    const most = 2;
    let preempted = 0;
    fc.assert(
      fc.property(options, fc.constantFrom(0, 3_000, 20_000), (drawn, coolDownMs) => {
        const policy = { ...DEFAULT_POLICY, maxPreemptions: most, coolDownMs: ms(coolDownMs) };
        const times = new Map<JobId, number>();
        const openScheduler: OpenScheduler = (ledger) => {
          const scheduler = schedulerWith(tawfq)(ledger);
          return schedulerBut(scheduler, {
            apply(event) {
              const sent = event.kind === "evictions-sent" ? event.sent : [];
              for (const id of sent) note(scheduler.ledger.leases.get(id));
              return scheduler.apply(event);
            },
          });
        };
        const note = (lease: Lease | undefined): void => {
          if (lease?.eviction === undefined || lease.eviction.forJob === lease.jobId) return;
          const before = times.get(lease.jobId) ?? 0;
          times.set(lease.jobId, before + 1);
          preempted += 1;
          expect(before).toBeLessThan(most);
          // What runs on lent GPUs gives them back whenever they are called in.
          if (before === 0 || lease.opportunistic !== undefined) return;
          expect(lease.eviction.atMs - lease.grantedAtMs).toBeGreaterThanOrEqual(coolDownMs);
        };
        runSimulation({ ...drawn, fleet: { ...FLEET, policy }, openScheduler });
      }),
      { numRuns: caseCount(120) },
    );
    expect(preempted).toBeGreaterThan(0);
  });

  test("one seed gives one result, byte for byte", () => {
    fc.assert(
      fc.property(options, (drawn) => {
        expect(JSON.stringify(runSimulation(drawn))).toBe(JSON.stringify(runSimulation(drawn)));
      }),
      { numRuns: caseCount(20) },
    );
  });
});
