/** @file Every nccl-tests log that we could find reads right, by its own footer; broken and failed ones say why. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  busBwNearGBs,
  meanBusBwGBs,
  opOfName,
  type NcclRun,
} from "../../../domain/bandwidth/nccl-run.ts";
import { parseNcclTests } from "../../../domain/bandwidth/parse-nccl-tests.ts";
import { problemText } from "../../../domain/values/problem.ts";
import { ncclText, PLAIN_NCCL, type MadeRow, type NcclTextStyle } from "../nccl-text.ts";
import { fixtureText, samples } from "../samples.ts";
import { caseCount } from "../../support/case-count.ts";

const SAMPLES = samples(
  ["test/fixtures/nccl-tests"],
  [
    "nccl-tests/alcf",
    "nccl-tests/coreweave-a100-1host",
    "nccl-tests/docs",
    "nccl-tests/pairwise-cluster00/logs",
  ],
);

function parsed(text: string): { runs: readonly NcclRun[]; warnings: readonly string[] } {
  const result = parseNcclTests(text, { source: "log" });
  if (result.kind === "refused") throw new Error(JSON.stringify(result.problems));
  return { runs: result.runs, warnings: result.warnings.map((one) => problemText("log", one)) };
}

function oneRun(text: string): NcclRun {
  const { runs } = parsed(text);
  const [run] = runs;
  if (run === undefined || runs.length !== 1) throw new Error(`${runs.length} runs`);
  return run;
}

function problemsOf(text: string): readonly string[] {
  const result = parseNcclTests(text, { source: "log" });
  if (result.kind === "parsed") throw new Error("was not refused");
  return result.problems.map((problem) => problemText("log", problem));
}

/** Rows by the eye: lines that hold two whole numbers and `float` or `double`. */
function rowsIn(text: string): number {
  return text.split("\n").filter((line) => /\d+\s+\d+\s+(float|double)\s/.test(line)).length;
}

describe("logs of real clusters", () => {
  test.each(SAMPLES.filter(({ name }) => !name.startsWith("failures")))(
    "$name: no row is lost, and the figures agree with each other and with the footer",
    ({ name, text }) => {
      const { runs } = parsed(text);
      expect(runs.reduce((sum, run) => sum + run.rows.length, 0)).toBe(rowsIn(text));
      for (const run of runs) {
        for (const { bytes, outOfPlace, inPlace } of run.rows) {
          for (const figures of [outOfPlace ?? [], inPlace ?? []].flat()) {
            // algbw is bytes / time; both are printed rounded, times above 10^7 us to two digits.
            const algbwGBs = bytes / figures.timeUs / 1000;
            const slack = figures.timeUs >= 1e7 ? 0.05 : 0.005;
            expect(Math.abs(figures.algbwGBs - algbwGBs)).toBeLessThan(0.0051 + algbwGBs * slack);
          }
        }
        const mean = meanBusBwGBs(run);
        // This page lists the rows from 8 MiB up of a run that began at 8 bytes, without saying so.
        const isPartOfRun = run.isElided || name === "dstack-gcp-1.txt";
        if (mean === undefined || run.avgBusBwGBs === undefined || isPartOfRun) continue;
        expect(mean).toBeCloseTo(run.avgBusBwGBs, 2);
      }
    },
  );

  test("a run tells its settings, its ranks and its rows", () => {
    const run = oneRun(fixtureText("nccl-tests/coreweave-a100-all_reduce_8.txt"));
    expect(run.params).toEqual({
      threads: 1,
      gpusPerThread: 8,
      minBytes: 96,
      maxBytes: 419_430_400,
      step: { kind: "factor", by: 2 },
      warmupIterations: 5,
      iterations: 20,
      aggregatedIterations: 1,
      isValidated: true,
      graphLaunches: 0,
    });
    expect(run.ranks).toHaveLength(8);
    expect(run.ranks[1]).toEqual({
      rank: 1,
      group: 0,
      pid: 20227,
      host: "sshd-6dd579cbbc-ddzsw",
      device: 1,
      busId: "0x2a",
      name: "NVIDIA A100-SXM4-80GB",
    });
    expect(run.rows).toHaveLength(23);
    expect(run.op).toBe("unknown");
    expect(run.outOfBounds).toEqual({ count: 0, isOk: true });
  });

  test.each([
    ["aws-1.txt", 29, "0: "],
    ["aws-3.txt", 7, "[1,0]<stdout>:"],
    ["coreweave-a100-all_gather_2.txt", 23, "[STAT]:"],
  ])("%s: its %i rows are found behind what the launcher wrote", (file, want, prefix) => {
    const text = fixtureText(`nccl-tests/${file}`);
    expect(text).toContain(prefix);
    expect(oneRun(text).rows).toHaveLength(want);
  });

  test("a log of two runs gives both, each with its program", () => {
    const { runs } = parsed(fixtureText("nccl-tests/nccl_N2_G1_cnode2-001_cnode2-002.log"));
    expect(runs.map(({ op, rows, avgBusBwGBs }) => [op, rows.length, avgBusBwGBs])).toEqual([
      ["alltoall", 10, 13.4689],
      ["sendrecv", 10, 13.5405],
    ]);
  });

  test("a run that NCCL broke has no rows and NCCL's words; the run after it is whole", () => {
    const { runs, warnings } = parsed(
      fixtureText("nccl-tests/nccl_N2_G4_cnode2-001_cnode2-003.log"),
    );
    expect(runs.map(({ rows, failure }) => [rows.length, failure?.line])).toEqual([
      [0, 18],
      [10, undefined],
    ]);
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toMatch(
      /^log:18: the alltoall run from line 1 failed after 0 rows: "cnode2-001: Test NCCL failure common.cu:401 'remote process exited/,
    );
  });

  test("wrong results are counted and warned of", () => {
    const { runs, warnings } = parsed(fixtureText("nccl-tests/coreweave-a100-sendrecv_4.txt"));
    expect(runs[0]?.outOfBounds).toEqual({ count: 26, isOk: false });
    expect(runs[0]?.rows.at(-1)?.outOfPlace?.wrong).toBe(3.22123e9);
    expect(runs[0]?.rows.at(-1)?.inPlace).not.toHaveProperty("wrong");
    expect(warnings[0]).toMatch(/26 wrong values: the run FAILED its own check/);
  });

  test("lines left out with dots are marked, and the footer is not held against the rest", () => {
    const { runs, warnings } = parsed(fixtureText("nccl-tests/aws-3.txt"));
    expect(runs[0]?.isElided).toBe(true);
    expect(warnings).toEqual([]);
  });
});

const madeRows: fc.Arbitrary<MadeRow[]> = fc
  .array(
    fc.record({
      outUs: fc.integer({ min: 20, max: 9000 }),
      inUs: fc.integer({ min: 20, max: 9000 }),
    }),
    {
      minLength: 1,
      maxLength: 12,
    },
  )
  .map((times) => times.map((time, index) => ({ bytes: 1024 * 2 ** index, ...time })));

const styles: fc.Arbitrary<NcclTextStyle> = fc.record({
  prefix: fc.constantFrom(
    () => "",
    () => "0: ",
    () => " 0: ",
    () => "[1,0]<stdout>:",
    (line: number) => `2024-01-31T12:00:${10 + (line % 50)}.123456789Z `,
    (line: number) => `[2024-01-31 12:00:${10 + (line % 50)}] `,
    () => "nccl-launcher-0 | ",
  ),
  hasHash: fc.boolean(),
  wrongWord: fc.constantFrom("#wrong", "wrong", "error"),
  wrong: fc.constantFrom("0", "N/A", "1.57286e+06"),
  hasRoot: fc.boolean(),
  hasIterations: fc.boolean(),
  hasTimestamp: fc.boolean(),
  lineEnd: fc.constantFrom("\n", "\r\n"),
  hasVersion: fc.boolean(),
});

describe("made-up logs", () => {
  test("any rows, written in any style, read back the same", () => {
    fc.assert(
      fc.property(madeRows, fc.integer({ min: 2, max: 17 }), styles, (rows, ranks, style) => {
        const { runs, warnings } = parsed(ncclText(rows, ranks, style));
        const [run] = runs;
        expect(runs).toHaveLength(1);
        expect(warnings).toEqual([]);
        expect(run?.op).toBe(style.hasVersion ? "all_reduce" : "unknown");
        expect(run?.ranks.map(({ rank, host }) => [rank, host])).toEqual(
          Array.from({ length: ranks }, (_, rank) => [rank, `made-up-${rank >> 3}`]),
        );
        expect(
          run?.rows.map(({ bytes, outOfPlace, inPlace }) => ({
            bytes,
            outUs: outOfPlace?.timeUs,
            inUs: inPlace?.timeUs,
          })),
        ).toEqual(rows);
        expect(run?.rows[0]?.redop).toBe("sum");
        expect(run?.rows[0]).not.toHaveProperty("root");
      }),
      { numRuns: caseCount(200) },
    );
  });

  test("several logs in one text are several runs", () => {
    const rows = [{ bytes: 1024, outUs: 20, inUs: 25 }];
    for (const hasVersion of [true, false]) {
      const text = ncclText(rows, 2, { ...PLAIN_NCCL, hasVersion });
      expect(parsed(text + text + text).runs).toHaveLength(3);
    }
  });

  const head =
    "#  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong";
  const row = "  1024  256  float  sum  -1  10.0  0.10  0.20  0  20.0  0.05  0.10  0";
  const lines = (...all: string[]): string => all.join("\n");

  test("a row whose out-of-place half is blank has the in-place figures", () => {
    const gap = " ".repeat(36);
    const run = oneRun(lines(head, `  1024  256  float  sum  -1${gap}20.0  0.05  0.10  0`));
    expect(run.rows).toEqual([
      {
        bytes: 1024,
        count: 256,
        dtype: "float",
        redop: "sum",
        inPlace: { timeUs: 20, algbwGBs: 0.05, busbwGBs: 0.1, wrong: 0 },
      },
    ]);
  });

  test("a broadcast names its root and reduces nothing", () => {
    const run = oneRun(lines(head, row.replace("sum  -1", "none  3")));
    expect(run.rows[0]).toMatchObject({ root: 3 });
    expect(run.rows[0]).not.toHaveProperty("redop");
  });

  test("the program is known from the command line above, or from the caller", () => {
    const text = lines("$ mpirun -np 8 ./build/reduce_scatter_perf -b 8 -e 1G", head, row);
    expect(oneRun(text).op).toBe("reduce_scatter");
    const hinted = parseNcclTests(lines(head, row), { source: "log", op: "all_gather" });
    expect(hinted.kind === "parsed" && hinted.runs[0]?.op).toBe("all_gather");
  });

  test.each([
    ["polaris-n2.g4-all_gather-env1.txt", "all_gather"],
    ["allreduce.log", "all_reduce"],
    ["AllToAll_8.txt", "alltoall"],
    ["reduce-scatter", "reduce_scatter"],
    ["all_reduce_perf", "all_reduce"],
    ["reduced.txt", undefined],
    ["log.txt", undefined],
  ])("the name %s tells %s", (name, want) => {
    expect(opOfName(name)).toBe(want);
  });

  test.each<{ name: string; text: string; want: RegExp }>([
    { name: "no footer", text: lines(head, row), want: /^log:1: .* no footer .*cut off/ },
    {
      name: "rows without a table head",
      text: lines(row, "# Avg bus bandwidth : 0.15"),
      want: /^log:1: rows without a table head/,
    },
    {
      name: "rows that the footer knows and the text lacks",
      text: lines(head, row, "# Avg bus bandwidth : 5.5"),
      want: /^log:1: the rows average 0.150 GB\/s, the footer says 5.5/,
    },
    {
      name: "ranks that are not listed",
      text: lines("# Rank 7 Pid 1 on h device 7 [0x1] X", head, row, "# Avg bus bandwidth : 0.15"),
      want: /^log:1: ranks up to 7 are named, but only 1 of them/,
    },
    {
      name: "a figure that is no number",
      text: lines(
        head,
        row,
        row.replace("1024", "2048").replace("0.20", "-nan"),
        "# Avg bus bandwidth : 0.15",
      ),
      want: /^log:3: the row of 2048 bytes has "-nan" where a number belongs; it was left out/,
    },
    {
      name: "the same size twice",
      text: lines(head, row, row, "# Avg bus bandwidth : 0.15"),
      want: /^log:3: a second row of 1024 bytes in one run/,
    },
    {
      name: "what NCCL warned of",
      text: lines("h:1:2 [0] misc.cc:9 NCCL WARN No HCA", head, row, "# Avg bus bandwidth : 0.15"),
      want: /^log:1: NCCL warned: "h:1:2 \[0\] misc.cc:9 NCCL WARN No HCA"/,
    },
    {
      name: "a failure before the first run",
      text: `bash: ./x: No such file or directory\n${ncclText([{ bytes: 1024, outUs: 20, inUs: 25 }], 2, PLAIN_NCCL)}`,
      want: /^log:1: the run from line 1 failed after 0 rows: "bash/,
    },
    {
      name: "a failure after the rows",
      text: lines(head, row, "# Avg bus bandwidth : 0.15", "srun: error: task 0 exited"),
      want: /^log:4: after the run: "srun: error/,
    },
    {
      name: "a report that the run survived",
      text: lines(head, "srun: error: step hiccup", row, "# Avg bus bandwidth : 0.15"),
      want: /^log:2: during the run: .*went on to its footer/,
    },
  ])("warns of $name", ({ text, want }) => {
    const { runs, warnings } = parsed(text);
    expect(runs).toHaveLength(1);
    expect(runs[0]?.rows.length).toBeGreaterThan(0);
    expect(runs[0]).not.toHaveProperty("failure");
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toMatch(want);
  });

  test.each<{ name: string; text: string; want: RegExp }>([
    { name: "nothing", text: "", want: /^log:1: the text is empty/ },
    { name: "another text", text: "hello", want: /^log:1: this is no output of nccl-tests/ },
    { name: "a head without rows", text: head, want: /^log:1: the run has no rows/ },
    {
      name: "a run that failed at once, with NCCL's words",
      text: lines(
        head,
        "n1: Test NCCL failure a.cu:9 'unhandled system error / '",
        " .. n1 pid 5: Test failure b.cu:1",
      ),
      want: /^log:2: the run failed before its first row: "n1: Test NCCL failure a.cu:9 'unhandled system error \/ '"; mend/,
    },
    {
      name: "a program that does not start",
      text: "all_reduce_perf: error while loading shared libraries: libnccl.so.2: cannot open",
      want: /libnccl\.so\.2: cannot open/,
    },
    {
      name: "a ragged row",
      text: lines(head, row, "  2048  512  float  sum  -1  10.0  0.10"),
      want: /^log:3: the row of 2048 bytes has 7 cells and needs 13; copy/,
    },
    {
      name: "a row cut at its size",
      text: lines(head, row, "  2048"),
      want: /^log:3: a row is cut off/,
    },
    {
      name: "an unknown data type",
      text: lines(head, row.replace("float", "quux")),
      want: /^log:2: a row has the data type "quux"/,
    },
    {
      name: "a word where a number belongs",
      text: lines(head, row.replace("0.20", "fast")),
      want: /^log:2: the row of 1024 bytes has "fast" where a number belongs/,
    },
    {
      name: "a table head without bandwidths",
      text: lines("# size count type redop root time busbw #wrong", row),
      want: /^log:1: the table head has no column algbw/,
    },
    {
      name: "one rank twice",
      text: lines(
        "# Rank 0 Pid 1 on h device 0 [0x1] X",
        "# Rank 0 Pid 2 on h device 0 [0x1] X",
        head,
        row,
      ),
      want: /^log:2: rank 0 appears twice in one run; .*MPI=1/,
    },
  ])("refuses $name", ({ text, want }) => {
    expect(problemsOf(text)[0]).toMatch(want);
  });

  test("no text makes the parser throw", () => {
    const word = fc.constantFrom(
      head,
      row,
      "# Avg bus bandwidth : 1",
      "\n",
      "float",
      "12",
      "Rank 0 on h device 0",
    );
    const text = fc.array(fc.oneof(word, fc.string())).map((parts) => parts.join(" "));
    fc.assert(
      fc.property(text, (any) => {
        const result = parseNcclTests(any, { source: "any" });
        expect(
          result.kind === "parsed" ? result.runs.length : result.problems.length,
        ).toBeGreaterThan(0);
      }),
      { numRuns: caseCount(300) },
    );
  });
});

test("the bandwidth near a size is that of the nearest row, the better placement", () => {
  const rows = [1024, 4096].map((bytes) => ({ bytes, outUs: bytes / 100, inUs: bytes / 200 }));
  const run = oneRun(ncclText(rows, 2, PLAIN_NCCL));
  expect(busBwNearGBs(run, 1500)).toBeCloseTo(0.2, 2);
  expect(busBwNearGBs({ ...run, rows: [] }, 1500)).toBeUndefined();
});
