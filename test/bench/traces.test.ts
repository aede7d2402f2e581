/** @file `bench traces`: its windows and cases are what was frozen, and a small run has a figure for every policy. */
import { describe, expect, test } from "vitest";
import type { BenchRequest } from "../../bench/bench.ts";
import { casesOf, windowOf } from "../../bench/traces/definition.ts";
import { TRACE_ENTRANTS } from "../../bench/traces/entrants.ts";
import { POLICY_NAMES } from "../../bench/traces/names.ts";
import { runTraces } from "../../bench/traces/run.ts";
import type { WorkloadJob } from "../../simulator/workload.ts";

const jobs = (count: number): readonly WorkloadJob[] =>
  Array.from({ length: count }, (_, at) => ({
    id: `job-${String(at)}`,
    submittedAtMs: 1_000 * at,
    durationMs: 1,
    gpus: 1,
    class: "training",
    tenant: "team",
  }));

describe("windows", () => {
  test("of a long trace begin at its quarters, and each at 0", () => {
    const windows = [0, 1, 2].map((at) => windowOf(jobs(40), at, 8));
    expect(windows.map(([first]) => first?.id)).toEqual(["job-10", "job-20", "job-30"]);
    expect(windows.map(([first]) => first?.submittedAtMs)).toEqual([0, 0, 0]);
    expect(windows.every(({ length }) => length === 8)).toBe(true);
  });
  test("of a trace that is just long enough end with it", () => {
    expect(windowOf(jobs(10), 2, 8).at(-1)?.id).toBe("job-9");
  });
  test("of a short trace are rounds of a ring, each with all jobs, in order of arrival", () => {
    const window = windowOf(jobs(9), 1, 30);
    expect(window.map(({ id }) => id)[0]).toBe("job-3");
    expect(new Set(window.map(({ id }) => id)).size).toBe(9);
    expect(window.map(({ submittedAtMs }) => submittedAtMs)).toEqual(
      Array.from({ length: 9 }, (_, at) => 1_000 * at),
    );
  });
});

describe("cases", () => {
  test("the default run has one size and one window of each trace, at three loads", () => {
    const cases = casesOf(false);
    expect(cases).toHaveLength(18);
    expect(new Set(cases.map(({ window }) => window))).toEqual(new Set(["1"]));
  });
  test("all cases: 17 of sizes, five variants, three windows", () => {
    expect(casesOf(true)).toHaveLength(17 * 5 * 3);
  });
});

const CHOSEN: Readonly<Record<string, readonly string[]>> = {
  policies: ["fifo-backfill"],
  only: ["gavel"],
  loads: ["0.9"],
  gpus: ["64", "256", "512"],
  windows: ["1", "2", "3"],
};

const smallRun = (
  parallel: number,
  { lines = [], interrupted = new AbortController().signal }: SmallRunOptions = {},
): BenchRequest => ({
  seed: 1,
  size: (name) => (name === "parallel" ? parallel : 100),
  flag: () => false,
  text: () => undefined,
  chosen: (name) => CHOSEN[name] ?? [],
  say: (line) => void lines.push(line),
  interrupted,
  env: {},
});

interface SmallRunOptions {
  readonly lines?: string[];
  readonly interrupted?: AbortSignal;
}

test("a small run compares the chosen policies on the same arrivals", async () => {
  const { tables = [], bars } = await runTraces(smallRun(1));
  expect(tables.map(({ title }) => title)).toEqual(["gavel 256 0.9"]);
  expect(tables[0]?.rows.map(([name]) => name)).toEqual(["tawfq", "fifo-backfill"]);
  expect(bars.map(({ id }) => id)).toContain("completion-over-weights");
});

test("several simulations at a time give the figures of one after the other, and tell of each", async () => {
  const lines: string[] = [];
  const parallel = await runTraces(smallRun(2, { lines }));
  expect(parallel).toEqual(await runTraces(smallRun(1)));
  expect(lines.filter((line) => line.includes("of 2 simulations"))).toHaveLength(2);
});

test("an interrupted run ends", async () => {
  const interrupted = AbortSignal.abort(new Error("interrupted by the test"));
  await expect(runTraces(smallRun(1, { interrupted }))).rejects.toThrow("interrupted by the test");
  await expect(runTraces(smallRun(2, { interrupted }))).rejects.toThrow("interrupted by the test");
});

test("the names on the command line are those of the policies", () => {
  expect(TRACE_ENTRANTS.map(({ name }) => name)).toEqual(POLICY_NAMES);
});
