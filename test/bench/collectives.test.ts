import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { BenchRequest } from "../../bench/bench.ts";
import { COLLECTIVE_PARTS, collectivesBench } from "../../bench/collectives.ts";
import { breakEven } from "../../bench/collectives/measure.ts";
import { measureShifts } from "../../bench/collectives/shift-part.ts";
import { measureSizes } from "../../bench/collectives/sizes-part.ts";
import { FAMILIES, worldOf } from "../../bench/collectives/worlds.ts";
import { measureWorlds } from "../../bench/collectives/worlds-part.ts";
import { EMULATED_ARMS } from "../../simulator/collectives/emulated-arms.ts";
import { measureLags } from "../../bench/collectives/lag-part.ts";
import { playChooser } from "../../bench/collectives/play.ts";
import { runCollectives } from "../../bench/collectives/run.ts";
import { jobOf, SCENARIOS } from "../../bench/collectives/scenarios.ts";
import { benchRequest } from "../support/bench-request.ts";

const usual = (name: string): number => {
  const option = collectivesBench.options.find((each) => each.name === name);
  return option?.kind === "size" ? option.usual : NaN;
};

const requestFor = (
  sizes: Readonly<Record<string, number>>,
  more: Partial<BenchRequest> = {},
): BenchRequest =>
  benchRequest({
    size: (name) => sizes[name] ?? usual(name),
    // Jobs of 2,400 iterations take long, and a mean over shifts needs more seeds: these parts are tried below.
    chosen: () =>
      COLLECTIVE_PARTS.filter((part) => !["shift", "lag", "worlds", "sizes"].includes(part)),
    ...more,
  });

describe("bench collectives", () => {
  it("holds all its bars on a few seeds, and draws its figures", async () => {
    const plotDir = mkdtempSync(join(tmpdir(), "collectives-"));
    try {
      const { bars } = await runCollectives(
        requestFor({ seeds: 5, "rival-seeds": 1 }, { plotDir }),
      );
      expect(bars.filter(({ holds }) => !holds)).toEqual([]);
      expect(bars.length).toBeGreaterThan(40);
      expect(readdirSync(plotDir).filter((file) => file.endsWith(".svg"))).toHaveLength(14);
    } finally {
      rmSync(plotDir, { recursive: true });
    }
  });

  it("gives the same figures for the same seed", async () => {
    const request = requestFor(
      { seeds: 1, "rival-seeds": 1, iterations: 60 },
      { chosen: (name) => (name === "only" ? ["bandit"] : []) },
    );
    expect(await runCollectives(request)).toEqual(await runCollectives(request));
  });

  it("counts what explores, and the arm of each iteration, whatever the lag", () => {
    const [scenario] = SCENARIOS;
    if (scenario === undefined) throw new Error("there are scenarios");
    const draws = jobOf(scenario, { seed: 3, iterations: 60, noiseScale: 1 });
    const played = playChooser(draws, {
      arms: ["auto", "tree/simple"],
      lag: 5,
      chooser: (samples) =>
        samples.length === 0
          ? {
              kind: "explore",
              runs: [{ arm: "tree/simple", count: 3 }],
              meanwhile: "auto",
              why: "",
            }
          : { kind: "exploit", arm: "tree/simple", why: "" },
    });
    expect(played).toMatchObject({ exploring: 3, exploitFrom: 3, last: "tree/simple" });
    expect(played.arms.filter((arm) => arm === "auto")).toHaveLength(5);
    expect(played.ms[0]).toBe(draws.ms("tree/simple", 0));
  });

  it.each([
    { what: "ahead from the start", own: [1, 2, 3], auto: [2, 4, 6], want: 1 },
    { what: "behind at first", own: [9, 10, 11], auto: [5, 10, 15], want: 2 },
    { what: "never ahead", own: [9, 18, 27], auto: [5, 10, 15], want: undefined },
    { what: "ahead for a while only", own: [1, 30, 31], auto: [5, 10, 40], want: 3 },
  ])("breaks even: $what", ({ own, auto, want }) => {
    expect(breakEven(own, auto)).toBe(want);
  });
});

it("ours is back at AUTO's times after a shift, announced or not", () => {
  const seeds = Array.from({ length: 30 }, (_, at) => at + 1);
  const { bars } = measureShifts({ iterations: 240 }, seeds);
  expect(bars.filter(({ holds }) => !holds)).toEqual([]);
});

it("ours is ahead of the paper's bandit and behind the oracle when times arrive ten and twenty iterations late", () => {
  const plan = { seeds: [1, 2, 3], lags: [10, 20], lengths: [240], tick: () => undefined };
  const { bars, table } = measureLags(plan);
  expect(bars.filter(({ id }) => id.endsWith("-most")).map(({ holds }) => holds)).toEqual([
    true,
    true,
  ]);
  const of = (row: readonly string[], name: string): number =>
    Number(row[1 + table.columns.indexOf(name)]);
  for (const row of table.rows) {
    expect(of(row, "ours")).toBeGreaterThan(of(row, "oracle"));
    // A prior over names is worth what the first wait costs without one.
    expect(of(row, "told names")).toBeGreaterThanOrEqual(of(row, "oracle"));
    expect(of(row, "told names")).toBeLessThanOrEqual(of(row, "told by a first time"));
  }
});

describe("worlds drawn at random", () => {
  it("take on average what was drawn, in every family of noise", () => {
    for (const [at, family] of FAMILIES.entries()) {
      const ratios = Array.from({ length: 40 }, (_, round) => {
        const world = worldOf(1, at + round * FAMILIES.length, 4_000);
        expect(world.family).toBe(family);
        let sum = 0;
        for (let iteration = 400; iteration < 4_000; iteration += 1)
          sum += world.draws.ms("auto", iteration);
        return sum / 3_600 / world.meanMs("auto");
      });
      const mean = ratios.reduce((sum, each) => sum + each, 0) / ratios.length;
      expect(mean).toBeGreaterThan(0.98);
      expect(mean).toBeLessThan(1.02);
    }
  });

  it("have the best forced arm at its gain, and the others behind it", () => {
    for (let index = 0; index < 60; index += 1) {
      const { gain, best, meanMs } = worldOf(2, index, 10);
      const fastest = Math.min(...EMULATED_ARMS.map(meanMs));
      expect(meanMs(best)).toBe(fastest);
      const forced = EMULATED_ARMS.filter((arm) => arm !== "auto").map(meanMs);
      expect(1 - Math.min(...forced) / meanMs("auto")).toBeCloseTo(gain, 12);
      expect(Math.max(...forced) / Math.min(...forced)).toBeLessThanOrEqual(1.6);
    }
  });

  it("are the same for the same seed, and saved is a share of what the oracle saves", () => {
    const plan = { seed: 3, worlds: 9, lengths: [240], tick: () => undefined };
    const { bars } = measureWorlds(plan);
    expect(measureWorlds(plan).bars).toEqual(bars);
    const saved = bars.find(({ id }) => id === "worlds-240-saved")?.got ?? NaN;
    expect(saved).toBeGreaterThan(0);
    expect(saved).toBeLessThan(100);
  });
});

it("tells of table 2's cluster how often the right arm is kept, size by size", () => {
  const { bars, table } = measureSizes({ seeds: [1], iterations: 240, tick: () => undefined });
  expect(table.rows.map(([size]) => size)).toEqual([
    "256 KB",
    "1 MB",
    "4 MB",
    "16 MB",
    "64 MB",
    "256 MB",
  ]);
  expect(bars.map(({ id }) => id)).toEqual([
    "table-2-right",
    "table-2-right-worst-size",
    "table-2-right-steps-control",
  ]);
});
