import { describe, expect, it } from "vitest";
import {
  allowedProcessors,
  laneProcessors,
  processorsIn,
} from "../../../workers/serving/own-core.ts";

describe("the processors of lanes", () => {
  it("are those of the host's GPUs, so that two services keep apart", () => {
    const allowed = [4, 5, 6, 7];
    expect([...laneProcessors([0, 1], { gpuIds: [], allowed })]).toEqual([
      [0, 4],
      [1, 5],
    ]);
    expect([...laneProcessors([0, 1], { gpuIds: [2, 7], allowed })]).toEqual([
      [0, 6],
      [1, 7],
    ]);
  });

  it("are never shared, and a lane that works alone has none", () => {
    expect(laneProcessors([0], { gpuIds: [], allowed: [0, 1] }).size).toBe(0);
    expect(laneProcessors([0, 1, 2], { gpuIds: [], allowed: [0, 1] }).size).toBe(0);
    expect(laneProcessors([0, 1], { gpuIds: [1, 3], allowed: [0, 1] }).size).toBe(0);
    expect(laneProcessors([0, 2], { gpuIds: [], allowed: [0, 1, 2] }).size).toBe(2);
    expect(laneProcessors([0, 1], { gpuIds: [], allowed: [] }).size).toBe(0);
  });

  it("are read as Linux lists them", () => {
    expect(processorsIn("0-2,8")).toEqual([0, 1, 2, 8]);
    expect(processorsIn("")).toEqual([]);
    if (process.platform === "linux") expect(allowedProcessors().length).toBeGreaterThan(0);
  });
});
