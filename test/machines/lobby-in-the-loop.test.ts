/**
 * @file Nobody starves: fleet and lobbies together, with jobs that end, fail and ask again, give way to others, leave and can never start, and
 * job arrays, while words are late, doubled and given up, and the fleet's run continues as new.
 */
import fc from "fast-check";
import { expect, it } from "vitest";
import { DEFAULT_POLICY } from "../../domain/fleet/fleet.ts";
import type { JobClass } from "../../domain/job/job.ts";
import type { GangRequest } from "../../domain/lease/lease.ts";
import { tenantId, type TenantId } from "../../domain/values/ids.ts";
import { ms } from "../../domain/values/units.ts";
import { randomFrom } from "../../lib/random.ts";
import { caseCount } from "../support/case-count.ts";
import { fleetShape, gangRequest } from "../scheduling/builders.ts";
import type { LoopTasks } from "./looped-array.ts";
import { playLoop, type LoopJob } from "./played-loop.ts";

const CLASSES: readonly JobClass[] = ["training", "training", "interactive", "inference"];

const SHAPE = {
  ...fleetShape(
    [{ hosts: [{ gpus: 4 }, { gpus: 4 }] }],
    [
      { id: "a", quota: {} },
      { id: "b", quota: {} },
    ],
  ),
  policy: { ...DEFAULT_POLICY, places: 24 },
};

const TENANTS: readonly TenantId[] = ["a", "b", "x", "y"].map(tenantId);

interface Case {
  readonly seed: number;
  readonly jobs: number;
  /** Of ten. */
  readonly hopeless: number;
  readonly leaving: number;
  readonly failing: number;
  readonly lost: number;
  readonly arrays: number;
}

const cases: fc.Arbitrary<Case> = fc.record({
  seed: fc.nat(1_000_000),
  jobs: fc.integer({ min: 20, max: 70 }),
  hopeless: fc.integer({ min: 0, max: 4 }),
  leaving: fc.integer({ min: 0, max: 2 }),
  failing: fc.integer({ min: 0, max: 5 }),
  lost: fc.integer({ min: 0, max: 3 }),
  arrays: fc.integer({ min: 0, max: 4 }),
});

function jobsOf(each: Case): readonly LoopJob[] {
  const { seed, jobs, hopeless, leaving, failing, arrays } = each;
  const { below } = randomFrom(seed, "jobs");
  const tasks = randomFrom(seed, "arrays");
  return Array.from({ length: jobs }, (_, at): LoopJob => {
    const submittedAtMs = below(20_000);
    const isHopeless = below(10) < hopeless;
    const request: GangRequest = gangRequest({
      job: `job-${at}`,
      tenant: TENANTS[Math.min(below(6), TENANTS.length - 1)] ?? "a",
      class: CLASSES[below(CLASSES.length)] ?? "training",
      priority: below(3),
      gpus: isHopeless ? 64 : 1 + below(4),
      submittedAtMs,
      requestedAtMs: submittedAtMs,
      preemption: { isPreemptible: below(2) === 0, mayShrink: false, minRuntimeMs: ms(1_000) },
    });
    const leavesAtMs = below(10) < leaving ? submittedAtMs + below(60_000) : Infinity;
    const runs = below(10) < failing ? 2 + below(2) : 1;
    const job = { request, runMs: 1_000 + below(20_000), runs, isHopeless, leavesAtMs };
    const isArray = !isHopeless && tasks.below(10) < arrays;
    return isArray ? { ...job, runMs: 1_000 + tasks.below(8_000), array: tasksOf(tasks) } : job;
  });
}

/** Some come to more GPUs than the fleet has, and all to more tasks than run at once. */
function tasksOf({ below }: ReturnType<typeof randomFrom>): LoopTasks {
  const count = 2 + below(20);
  return { count, parallel: 1 + below(Math.min(count, 12)), failing: below(3) };
}

let [evicted, batches] = [0, 0];

it("starts every job that can start, and loses none, with the lobbies in the loop", async () => {
  await fc.assert(
    fc.asyncProperty(cases, async (each) => {
      const jobs = jobsOf(each);
      const loop = playLoop(SHAPE, jobs, { seed: each.seed, lost: each.lost / 10 });
      await loop.run(3_600_000);
      expect(loop.faults).toEqual([]);
      evicted += loop.evicted();
      for (const [id, array] of loop.arrays) {
        const { tasks, batches: ran = 0, phase } = array.state() ?? {};
        batches += ran;
        const { leavesAtMs } = jobs.find(({ request }) => request.jobId === id) ?? {};
        expect([id, phase?.kind]).toEqual([id, "over"]);
        if (leavesAtMs === Infinity)
          expect(tasks?.counts).toMatchObject({ waiting: 0, failed: 0, cancelled: 0 });
      }
      const unstarted = jobs.filter(
        ({ request, isHopeless, leavesAtMs }) =>
          !isHopeless && leavesAtMs === Infinity && !loop.started.has(request.jobId),
      );
      expect(unstarted.map(({ request }) => request.jobId)).toEqual([]);
      // What can never start is inside or outside, never both and never neither.
      for (const { request, isHopeless, leavesAtMs } of jobs)
        if (isHopeless && leavesAtMs === Infinity)
          expect(loop.whereabouts(request.jobId)).toHaveLength(1);
    }),
    { numRuns: caseCount(24) },
  );
  expect([evicted > 0, batches > 0]).toEqual([true, true]);
}, 300_000);
