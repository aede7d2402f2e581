import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { BenchRequest } from "../../bench/bench.ts";
import { COLLECTIVE_PARTS, collectivesBench } from "../../bench/collectives.ts";
import { breakEven } from "../../bench/collectives/measure.ts";
import { measureLags } from "../../bench/collectives/lag-part.ts";
import { playChooser } from "../../bench/collectives/play.ts";
import { runCollectives } from "../../bench/collectives/run.ts";
import { jobOf, SCENARIOS } from "../../bench/collectives/scenarios.ts";

const usual = (name: string): number => {
  const option = collectivesBench.options.find((each) => each.name === name);
  return option?.kind === "size" ? option.usual : NaN;
};

const requestFor = (
  sizes: Readonly<Record<string, number>>,
  more: Partial<BenchRequest> = {},
): BenchRequest => ({
  seed: 1,
  size: (name) => sizes[name] ?? usual(name),
  flag: () => false,
  text: () => undefined,
  // Jobs of 2,400 iterations take long: that part is tried below.
  chosen: () => COLLECTIVE_PARTS.filter((part) => part !== "lag"),
  say: () => undefined,
  interrupted: new AbortController().signal,
  env: {},
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

it("ours is ahead of the paper's bandit and behind the oracle when times arrive ten and twenty iterations late", () => {
  const plan = { seeds: [1, 2, 3], lags: [10, 20], lengths: [240], tick: () => undefined };
  const { bars, table } = measureLags(plan);
  expect(bars.filter(({ id }) => id.endsWith("-most")).map(({ holds }) => holds)).toEqual([
    true,
    true,
  ]);
  for (const row of table.rows) expect(Number(row[1])).toBeGreaterThan(Number(row[5]));
});
