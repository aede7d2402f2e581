/** @file The Philly trace: its rows, and the rows that cannot be read. */
import { describe, expect, test } from "vitest";
import { readPhillyTrace } from "../../../domain/trace/parse-philly.ts";
import { problemText } from "../../../domain/values/problem.ts";
import { dataText } from "../samples.ts";

const HEAD = "timestamp,duration,num_gpus,gpu_time,cluster";
const GOOD = "2017-10-27 00:23:25,27.0,2,54.0,11cb48";

describe("the cut-out of the repository", () => {
  const text = dataText("traces/philly-2017-rows-50000-50999.csv");
  const trace = readPhillyTrace(text, { source: "philly.csv", firstRow: 50_000 });
  const rows = trace.kind === "parsed" ? trace.rows : [];

  test("has 1,000 rows, all good, in order of submission", () => {
    expect(trace).toMatchObject({ kind: "parsed", badRows: [] });
    expect(rows.map(({ row }) => row)).toEqual(
      Array.from({ length: 1000 }, (_, at) => 50_000 + at),
    );
    for (const [at, row] of rows.entries()) {
      expect(row.submittedMs).toBeGreaterThanOrEqual(rows[at - 1]?.submittedMs ?? 0);
    }
  });

  test("has 924 one-GPU jobs, 73 gangs of 2 to 24 GPUs, and 3 of 32", () => {
    const counts = new Map<number, number>();
    for (const { gpus } of rows) counts.set(gpus, (counts.get(gpus) ?? 0) + 1);
    expect([...counts].sort(([a], [b]) => a - b)).toEqual([
      ...[
        [1, 924],
        [2, 25],
        [4, 19],
        [8, 14],
        [12, 5],
      ],
      ...[
        [16, 6],
        [24, 4],
        [32, 3],
      ],
    ]);
  });

  test("begins with a 27-second job of two GPUs", () => {
    expect(rows[0]).toEqual({
      row: 50_000,
      submittedMs: Date.UTC(2017, 9, 27, 0, 23, 25),
      durationMs: 27_000,
      gpus: 2,
      virtualCluster: "11cb48",
    });
  });
});

test.each([
  [
    "a time that no calendar has",
    "2017-02-30 00:00:00,1,1,1,a",
    /row 1 was submitted at "2017-02-30/,
  ],
  ["no time", ",1,1,1,a", /row 1 was submitted at ""/],
  ["an hour too many", "2017-10-27 24:00:00,1,1,1,a", /row 1 was submitted at/],
  ["a negative duration", "2017-10-27 00:00:00,-1,1,1,a", /row 1 has the duration "-1"/],
  ["a duration that is no number", "2017-10-27 00:00:00,inf,1,1,a", /row 1 has the duration "inf"/],
  ["no GPU", "2017-10-27 00:00:00,1,0,1,a", /row 1 asks for "0" GPUs/],
  ["half a GPU", "2017-10-27 00:00:00,1,0.5,1,a", /row 1 asks for "0.5" GPUs/],
  ["too many GPUs", "2017-10-27 00:00:00,1,1e9,1,a", /row 1 asks for "1e9" GPUs/],
  ["no cluster", "2017-10-27 00:00:00,1,1,1,", /row 1 names the cluster ""/],
  ["a cell too few", "2017-10-27 00:00:00,1,1,1", /has 4 cells and needs 5/],
])("a row with %s is left out and named; the others keep their numbers", (_, bad, want) => {
  const trace = readPhillyTrace([HEAD, GOOD, bad, GOOD].join("\n"), { source: "t" });
  if (trace.kind === "refused") throw new Error("was refused");
  expect(trace.rows.map(({ row }) => row)).toEqual([0, 2]);
  expect(trace.badRows).toHaveLength(1);
  expect(problemText("t", trace.badRows[0] ?? { line: 0, message: "", remedy: "" })).toMatch(want);
  expect(trace.badRows[0]?.line).toBe(3);
});

test.each([
  ["an empty text", "", /the text is empty/],
  ["another table", "a,b\n1,2", /column timestamp is missing/],
  ["a header alone", HEAD, /none of 0 rows can be read/],
  ["no good row", `${HEAD}\nx,1,1,1,a`, /row 0 was submitted at "x"/],
])("%s is refused", (_, text, want) => {
  const trace = readPhillyTrace(text, { source: "t" });
  if (trace.kind === "parsed") throw new Error("was not refused");
  expect(trace.problems[0]?.message).toMatch(want);
});
