/** @file The devices that stand in for GPUs: their wires are shared, and a plan on them takes what it takes on simulated ones. */

import { expect, it } from "vitest";
import { standIn } from "../../bench/inference/stand-in.ts";
import { execute, wireCapacity } from "../../planning/inference/executor.ts";
import { searchPlan } from "../../planning/inference/search.ts";
import { drawnProblem, oneEach } from "../planning/inference/problems.ts";

/** Every look at the clock takes a microsecond. */
function steadyClock(): () => number {
  let looks = 0;
  return () => {
    looks += 1;
    return looks / 1e3;
  };
}

const copiedMs = (copies: readonly (readonly string[])[], megabytes: number): readonly number[] => {
  const devices = standIn({
    capacity: () => 1e7,
    slowdown: 1,
    bytesFor: 64,
    nowMs: steadyClock(),
  });
  const endMs = copies.map(() => 0);
  for (const [at, wires] of copies.entries()) {
    const done = (): void => void (endMs[at] = devices.nowMs());
    devices.start({ bytes: megabytes * 1e6, bytesPerMs: 1e7, wires, done });
  }
  devices.run();
  return endMs;
};

it("two copies over one wire take turns and end together, over two wires in half the time", () => {
  const [first = 0, second = 0] = copiedMs([["down 0"], ["down 0"]], 40);
  expect(first).toBeGreaterThan(7.8);
  expect(second).toBeGreaterThanOrEqual(8);
  expect(second).toBeLessThan(8.4);
  for (const each of copiedMs([["down 0"], ["down 1"]], 40)) {
    expect(each).toBeGreaterThanOrEqual(4);
    expect(each).toBeLessThan(4.2);
  }
});

it("a copy over two wires keeps others off both", () => {
  const ends = copiedMs([["up 0", "down 1"], ["down 1"], ["up 0"]], 40);
  // Both wires are full until the copy over two is through, so nobody is earlier than its half share.
  for (const each of ends) expect(each).toBeGreaterThan(7.5);
  expect(Math.max(...ends)).toBeLessThan(8.5);
});

it("a plan ends when its copies and kernels say, and GPUs of one bus wait for each other", () => {
  const latency = (buses: readonly number[]): number => {
    const { problem, plan } = oneEach(buses);
    const devices = standIn({
      capacity: wireCapacity(problem),
      slowdown: 1,
      bytesFor: 64,
      nowMs: steadyClock(),
    });
    return execute(problem, plan, { devices }).latencyMs;
  };
  expect(latency([0, 0])).toBeCloseTo(5, 1);
  expect(latency([0, 1])).toBeCloseTo(3, 1);
});

it.each([1, 2, 3, 4, 5])(
  "found plans take within a tenth of what simulated devices say: seed %i",
  (seed) => {
    const problem = drawnProblem(seed);
    const found = searchPlan(problem, { seed: 1 });
    if (found.kind !== "planned") throw new Error(found.message);
    const devices = standIn({
      capacity: wireCapacity(problem),
      slowdown: 1,
      bytesFor: 64,
      nowMs: steadyClock(),
    });
    const simulatedMs = execute(problem, found.plan).latencyMs;
    const { latencyMs } = execute(problem, found.plan, { devices });
    expect(latencyMs / simulatedMs).toBeGreaterThan(0.9);
    expect(latencyMs / simulatedMs).toBeLessThan(1.1);
  },
);
