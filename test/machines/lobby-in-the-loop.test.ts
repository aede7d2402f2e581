/**
 * @file Nobody starves: fleet and lobbies together, with jobs that end, fail and ask again, give way to others, leave and can never start, and
 * job arrays, while words are late, doubled and given up, and the fleet's run continues as new.
 */
import fc from "fast-check";
import { expect, it } from "vitest";
import { DEFAULT_POLICY } from "../../domain/fleet/fleet.ts";
import type { JobClass } from "../../domain/job/job.ts";
import type { GangRequest } from "../../domain/lease/lease.ts";
import { clusterId, tenantId, type TenantId } from "../../domain/values/ids.ts";
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
});

/** With a description so long that some 90 KB are left for requests. */
const NARROW = fleetShape([{ hosts: [{}, { type: "A100" }] }]);
const FULL = {
  ...NARROW,
  clusters: NARROW.clusters.map((cluster) => ({ ...cluster, site: "x".repeat(1_620_000) })),
  policy: DEFAULT_POLICY,
};

/** No two of the large ones are alike: about 1,500 bytes each. */
const ofFlood = (at: number): GangRequest =>
  gangRequest({
    job: `flood-${at}`,
    tenant: "many",
    gpus: 8,
    preemption: { isPreemptible: false, mayShrink: false, minRuntimeMs: ms(0) },
    constraints: {
      gpuTypes: ["A100"],
      ...(at < LARGE && {
        clusters: ["c0", `${at}-`.padEnd(700, "x"), `${at}-`.padEnd(700, "y")].map(clusterId),
      }),
    },
    submittedAtMs: 20 * at,
    requestedAtMs: 20 * at,
  });
const [LARGE, ALL] = [120, 240];
const HELD_MS = 60_000;

const ofFew = fc.record({
  seed: fc.nat(1_000_000),
  atMs: fc.integer({ min: 2_000, max: 20_000 }),
  count: fc.integer({ min: 8, max: 40 }),
});

it("starts the few jobs of a tenant within seconds while another's flood fills the fleet to the last byte", async () => {
  await fc.assert(
    fc.asyncProperty(ofFew, async ({ seed, atMs, count }) => {
      const job = (request: GangRequest, runMs: number): LoopJob => ({
        request,
        runMs,
        runs: 1,
        isHopeless: false,
        leavesAtMs: Infinity,
      });
      // The first one holds what all others want.
      const flood = Array.from({ length: ALL }, (_, at) =>
        job(ofFlood(at), at === 0 ? HELD_MS : 500),
      );
      const few = Array.from({ length: count }, (_, at) => {
        const when = { submittedAtMs: atMs, requestedAtMs: atMs };
        const constraints = { gpuTypes: ["H100"] };
        const name = { job: `few-${at}`, tenant: "few" };
        return job(gangRequest({ ...name, gpus: 1, constraints, ...when }), 500);
      });
      const loop = playLoop(FULL, [...flood, ...few], { seed, lost: 0.1 });
      await loop.run(HELD_MS);
      expect(loop.faults).toEqual([]);
      const waits = few.map(({ request }) => (loop.started.get(request.jobId) ?? Infinity) - atMs);
      expect(Math.max(...waits)).toBeLessThan(20_000);
    }),
    { numRuns: caseCount(8) },
  );
});

/** With a host that has the eight GPUs that the hopeless ask for. */
const WIDER = {
  ...fleetShape(
    [{ hosts: [{ gpus: 4 }, { gpus: 4 }, { gpus: 8 }] }],
    [
      { id: "a", quota: {} },
      { id: "b", quota: {} },
    ],
  ),
  policy: SHAPE.policy,
};
const WIDER_AT_MS = 1_800_000;

const ofHopeless = fc.record({
  seed: fc.nat(1_000_000),
  hopeless: fc.integer({ min: 40, max: 90 }),
  others: fc.integer({ min: 0, max: 12 }),
});

it("calls each job that the fleet can never start in once, starts the others beside them, and all once the fleet has what they ask for", async () => {
  await fc.assert(
    fc.asyncProperty(ofHopeless, async ({ seed, hopeless, others }) => {
      const { below } = randomFrom(seed, "hopeless");
      const jobOf = (id: string, gpus: number): LoopJob => {
        const submittedAtMs = below(id.startsWith("wide") ? 20_000 : 600_000);
        const when = { submittedAtMs, requestedAtMs: submittedAtMs };
        const request = gangRequest({
          job: id,
          tenant: "a",
          gpus,
          constraints: { isSameHost: true },
          ...when,
        });
        return { request, runMs: 500, runs: 1, isHopeless: false, leavesAtMs: Infinity };
      };
      const wide = Array.from({ length: hopeless }, (_, at) => jobOf(`wide-${at}`, 8));
      const small = Array.from({ length: others }, (_, at) => jobOf(`small-${at}`, 1));
      const loop = playLoop(SHAPE, [...wide, ...small], {
        seed,
        lost: 0,
        then: { atMs: WIDER_AT_MS, shape: WIDER },
      });
      await loop.run(WIDER_AT_MS);
      expect(loop.faults).toEqual([]);
      // A call for each of them, and a few that a late count of a lobby costs.
      expect(loop.called()).toBeLessThan(1.5 * (hopeless + others));
      const waits = small.map(
        ({ request: { jobId, submittedAtMs } }) =>
          (loop.started.get(jobId) ?? Infinity) - submittedAtMs,
      );
      expect(Math.max(0, ...waits)).toBeLessThan(300_000);
      await loop.run(2 * WIDER_AT_MS);
      expect(loop.faults).toEqual([]);
      expect(wide.filter(({ request }) => !loop.started.has(request.jobId))).toEqual([]);
    }),
    { numRuns: caseCount(2) },
  );
});
