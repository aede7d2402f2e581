/** @file The judge of the live fleet's grants: a recorded fleet of a mixed cluster, with true bandwidths and with none. */
import { expect, test } from "vitest";
import { playOn } from "../../../bench/pick/granted.ts";
import { truthPredictor } from "../../../bench/pick/protocol.ts";
import { recordFleet } from "../../../bench/pick/recorded-fleet.ts";
import { readTruthData } from "../../../bench/pick/truth-data.ts";
import { hetTruth } from "../../../bench/pick/truth.ts";
import { popCount } from "../../../domain/lease/lease.ts";
import { mean } from "../../../bench/statistics.ts";

const truth = hetTruth("Het-4Mix", readTruthData());
if (truth === undefined) throw new Error("the data lacks a host type of Het-4Mix");
const known = truthPredictor(truth);
const SETTING = { seed: 7, jobs: 40 };

test("a recorded fleet grants free GPUs only, at once, to heads and to jobs that preempt", () => {
  const setting = { ...SETTING, largest: 8, ports: { predictorOf: () => known } };
  const { grants, evictions } = recordFleet(truth.domain, setting);
  expect(grants.length).toBeGreaterThanOrEqual(SETTING.jobs);
  expect(evictions).toBeGreaterThan(0);
  const indexOf = new Map(truth.domain.hosts.map(({ id }, at) => [id, at]));
  for (const { gpus, size, freeMasks, openMasks } of grants) {
    expect(gpus.reduce((sum, { mask }) => sum + popCount(mask), 0)).toBe(size);
    for (const { host, mask } of gpus) {
      const at = indexOf.get(host) ?? -1;
      expect(mask & ~(openMasks[at] ?? 0)).toBe(0);
      expect((openMasks[at] ?? 0) & ~(freeMasks[at] ?? 0)).toBe(0);
    }
  }
});

test("who knows the truth is granted nearly the best of all types, and topology alone is not", () => {
  const gbe = (ports: Parameters<typeof playOn>[1]["ports"]): number =>
    mean(playOn(truth, { ...SETTING, ports }).judged.map(({ ofOpen }) => ofOpen));
  const ours = gbe({ predictorOf: () => known });
  expect(ours).toBeGreaterThan(99);
  expect(gbe({})).toBeLessThan(ours - 5);
});
