import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { parseNcclTests } from "../../../domain/bandwidth/parse-nccl-tests.ts";
import type { EmulatedArm } from "../../../simulator/collectives/emulated-arms.ts";
import { emulatedCluster } from "../../../simulator/collectives/emulated-cluster.ts";
import {
  calibratedCluster,
  fabricOf,
  heldOutErrors,
  logPoints,
} from "../../../simulator/collectives/nccl-calibration.ts";

function runOf(file: string) {
  const parsed = parseNcclTests(readFileSync(file, "utf8"), { source: file, op: "all_reduce" });
  const run = parsed.kind === "parsed" ? parsed.runs[0] : undefined;
  if (run === undefined) throw new Error(`${file} holds no run`);
  return run;
}

describe("a cluster from a log of eight A100", () => {
  const run = runOf("test/fixtures/nccl-tests/coreweave-a100-all_reduce_8.txt");
  const points = logPoints(run);
  const fabric = fabricOf(run, points);
  if (fabric === undefined) throw new Error("the log names its ranks");

  it("is one host of eight GPUs at 226 GB/s", () => {
    expect([fabric.nodes, fabric.gpusPerNode]).toEqual([1, 8]);
    expect(fabric.nvlink.gbs).toBeCloseTo(226.6, 0);
  });

  it("takes as long as the log says at every size", () => {
    const cluster = emulatedCluster(calibratedCluster("log", fabric, points));
    const auto: EmulatedArm = "auto";
    expect(points.length).toBeGreaterThan(10);
    for (const { bytes, ms } of points)
      expect(cluster.medianMs({ arm: auto, bytes, hasOverlap: false })).toBeCloseTo(ms, 6);
  });

  it("is within 12 % at sizes that it was not told, 7 % on average", () => {
    const errors = heldOutErrors(fabric, points).map(Math.abs);
    expect(errors.length).toBeGreaterThan(4);
    expect(Math.max(...errors)).toBeLessThan(0.12);
    expect(errors.reduce((sum, error) => sum + error, 0) / errors.length).toBeLessThan(0.07);
  });
});

it("a log of another collective calibrates nothing", () => {
  const run = {
    ...runOf("test/fixtures/nccl-tests/coreweave-a100-all_reduce_8.txt"),
    op: "alltoall",
  };
  expect(logPoints(run)).toEqual([]);
  expect(fabricOf(run, [])).toBeUndefined();
});
