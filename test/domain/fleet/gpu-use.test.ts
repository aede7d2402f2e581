/** @file How much GPUs are used: the answers of driver and DCGM, and the heartbeats that tell it. */

import { describe, expect, it } from "vitest";
import { parseGpuUse, parseTensorUse } from "../../../domain/fleet/parse-gpu-use.ts";
import { readPresenceBeat, sumOfUse } from "../../../domain/lease/gpu-use.ts";

describe("the driver's answer", () => {
  it.each([
    [
      "whole",
      "97, 60123, 81559, 612.40\n0, 4, 81559, 70.12\n",
      [
        { use: 0.97, memoryMiB: 60_123, memoryOfMiB: 81_559, watts: 612.4 },
        { use: 0, memoryMiB: 4, memoryOfMiB: 81_559, watts: 70.12 },
      ],
    ],
    ["without memory and power", "12, [N/A], [N/A], [Not Supported]\n", [{ use: 0.12 }]],
    [
      "with a GPU that does not say its use",
      "[N/A], 4, 8, 1\n5, 4, 8, 1\n",
      [undefined, { use: 0.05, memoryMiB: 4, memoryOfMiB: 8, watts: 1 }],
    ],
    ["of no driver", "Failed to initialize NVML: Driver/library version mismatch\n", []],
    ["beyond all measure", "400, 1, 1, 1\n", [undefined]],
  ])("%s", (_name, answer, want) => {
    expect(parseGpuUse(answer)).toEqual(want);
  });

  it("of DCGM names its GPUs", () => {
    const answer = "#Entity   TENSO\nID\nGPU 1     0.874\nGPU 0     0.012\nGPU 2     N/A\n";
    expect(parseTensorUse(answer)).toEqual([0.012, 0.874, undefined]);
    expect(parseTensorUse("Error: unable to establish a connection\n")).toEqual([]);
  });
});

describe("a heartbeat", () => {
  it("of another form is left out", () => {
    const good = { use: 0.5, idleMs: 10, watts: 300 };
    const beat = {
      use: {
        "eu/a": [good, null, { use: 2, idleMs: 0 }, { use: 0.5 }, { ...good, tensor: "high" }],
        "no host": [good],
        "eu/b": "none",
        "eu/c": Array.from({ length: 100 }, () => good),
      },
    };
    expect([...readPresenceBeat(beat)]).toEqual([["eu/a", [good, null, null, null, good]]]);
    for (const junk of [undefined, null, 3, "use", {}, { use: null }, { use: 7 }])
      expect(readPresenceBeat(junk).size).toBe(0);
  });

  it("of several GPUs is idle only for as long as all of them", () => {
    expect(
      sumOfUse([
        { use: 0, idleMs: 90_000, watts: 70, memoryMiB: 10 },
        { use: 0.5, idleMs: 5_000, watts: 600, memoryMiB: 30, tensor: 0.25 },
      ]),
    ).toEqual({ gpus: 2, use: 0.25, idleMs: 5_000, watts: 670, memoryMiB: 40, tensor: 0.25 });
    expect(sumOfUse([])).toEqual({ gpus: 0, use: 0, idleMs: 0 });
  });
});
