/** @file Cases of `bench spiderflow`: the product runs the same jobs, and the stable load is one that the baseline bears. */
import { describe, expect, test } from "vitest";
import { jobsOf, overSeeds, runCase, stableLoad, type Case } from "../../bench/spiderflow/case.ts";
import { OURS, RIVALS } from "../../bench/spiderflow/methods.ts";
import { playProduct } from "../../bench/spiderflow/product.ts";
import { testbed } from "../../bench/spiderflow/scenes.ts";
import { mappingText } from "../../bench/spiderflow/tables.ts";
import { bestClusters } from "../../scheduling/placement/best-clusters.ts";
import { opportunistic } from "../../bench/rivals/placement/clusters.ts";
import { play } from "../../simulator/spiderflow/play.ts";
import { openStepClock } from "../../simulator/spiderflow/step-clock.ts";
import { benchRequest } from "../support/bench-request.ts";

const BASE = { name: "Opportunistic", policy: opportunistic, split: "plain" } as const;
const each: Case = {
  scene: testbed(1),
  trace: "Philly",
  jobs: 60,
  seed: 1,
  shape: { beyondShare: 0.35, furthest: 12, load: 0.8 },
};
const clock = openStepClock(each.scene.clock);

describe("the product", () => {
  const jobs = jobsOf(each);
  const outcome = playProduct(jobs, each.scene, clock);

  test("ends all jobs, with whole gangs or halves, and holds no GPU twice", () => {
    expect(outcome.jobs.map(({ number }) => number)).toEqual(jobs.map(({ number }) => number));
    for (const { number, gpus, queuedMs, completionMs, throughput } of outcome.jobs) {
      const asked = jobs[number]?.gpus ?? 0;
      expect([asked, asked / 2]).toContain(gpus);
      expect(queuedMs).toBeGreaterThanOrEqual(0);
      expect(completionMs).toBeGreaterThan(queuedMs);
      expect(throughput).toBeGreaterThan(0);
    }
    expect(outcome.utilisation).toBeGreaterThan(0);
    expect(outcome.utilisation).toBeLessThanOrEqual(1);
  });

  test("runs a job alone in the fleet as long as the play does, at the same step", () => {
    const alone = jobs
      .filter(({ gpus }) => gpus > 4)
      .slice(0, 1)
      .map((own) => ({ ...own, arrivalMs: 0 }));
    const [job] = alone;
    if (job === undefined) throw new Error("no gang is larger than a cluster");
    const [row] = playProduct(alone, each.scene, clock).jobs;
    expect(row?.gpus).toBe(job.gpus);
    expect(row?.clusters).toBeGreaterThan(1);
    const setting = { fleet: each.scene.fleet, clock };
    const method = { name: OURS, policy: bestClusters, split: "sparing" } as const;
    const [played] = play(alone, method, setting).jobs;
    // The fleet's cycles take milliseconds.
    expect(Math.abs((row?.completionMs ?? 0) - (played?.runMs ?? 0))).toBeLessThan(100);
  });

  test("has the same outcome again", () => {
    expect(playProduct(jobs, each.scene, clock)).toEqual(outcome);
  });
});

test("at the stable load jobs of the baseline wait no longer than they run; the load is below the one that was asked for", () => {
  const load = stableLoad(each, BASE);
  expect(load).toBeGreaterThan(0);
  expect(load).toBeLessThan(0.8);
  const { fleet } = each.scene;
  const shape = { ...each.shape, load };
  const { jobs } = play(jobsOf({ ...each, shape }), BASE, { fleet, clock });
  const sum = (of: (job: (typeof jobs)[number]) => number): number =>
    jobs.reduce((total, job) => total + of(job), 0);
  expect(sum(({ queuedMs }) => queuedMs)).toBeLessThanOrEqual(sum(({ runMs }) => runMs));
});

test("a case plays every rival, ours and the product, and says how its jobs came about", async () => {
  const said: string[] = [];
  const request = benchRequest({ say: (what) => said.push(what) });
  const run = await runCase({ ...each, jobs: 12, hasProduct: true }, request, "a case");
  const { rans, drawn } = overSeeds([run, run]);
  for (const name of [...RIVALS, OURS, "the product"]) {
    expect(rans.get(name)?.completionMs).toBeGreaterThan(0);
    expect(said.some((what) => what.includes(name))).toBe(true);
  }
  expect(rans.get(OURS)?.completionMs).toBe(
    run.rans.find(({ name }) => name === OURS)?.completionMs,
  );
  expect(drawn.beyond).toBeGreaterThan(0);
  expect(mappingText(drawn)).toMatch(
    /12 jobs: .*Philly.*load of 0\.80;.*% of the jobs above the largest cluster/,
  );
});
