/** @file `orbweaver bench`: sizes and seed reach the bench, its bars come back as a table or a document, and decide the exit status. */
import { Command } from "commander";
import { describe, expect, test } from "vitest";
import { atMost, barOf, unmeasured, type Bar } from "../../bench/bar.ts";
import type { Bench, BenchRequest } from "../../bench/bench.ts";
import { BENCHES } from "../../bench/registry.ts";
import { createCommandContext } from "../../cli/command/command-context.ts";
import { benchVerbOf } from "../../cli/verbs/science/bench.ts";
import { run } from "../cli/run.ts";
import { Writable } from "node:stream";

const GOOD = barOf({
  id: "speed",
  unit: "ms",
  target: atMost(10),
  got: 2.5,
  paper: 4,
  note: "a note",
});
const BAD = barOf({ id: "speed", unit: "ms", target: atMost(10), got: 20 });
const ABSENT = unmeasured({ id: "speed", unit: "ms", target: atMost(10) }, "no server");

function benchWith(
  bars: readonly Bar[],
  onRun: (request: BenchRequest) => void = () => undefined,
): Bench {
  return {
    name: "try",
    summary: "a try",
    description: "Tries.",
    options: [
      { kind: "size", name: "idle-jobs", what: "how many", usual: 5, least: 2 },
      { kind: "text", name: "address", value: "host:port", what: "where" },
      { kind: "choice", name: "only", what: "which", choices: ["a", "b"] },
    ],
    examples: [["orbweaver bench try", "just so"]],
    run: (request) => {
      onRun(request);
      return Promise.resolve({ bars, details: { more: 1 } });
    },
  };
}

interface Answer {
  readonly code: number;
  readonly stdout: string;
}

async function bench(of: Bench, words: readonly string[]): Promise<Answer> {
  let stdout = "";
  let code = 0;
  const stream = new Writable({
    write(chunk, _encoding, done) {
      stdout += String(chunk);
      done();
    },
  });
  const kit = createCommandContext({
    io: {
      stdout: stream,
      stderr: new Writable({ write: (_chunk, _encoding, done) => done() }),
      readInput: () => Promise.resolve(""),
      env: {},
      cwd: "/",
      nowMs: () => 0,
      interrupted: new AbortController().signal,
    },
    openSession: () => Promise.reject(new Error("no session")),
    commandLine: undefined,
    exitWith: (status) => {
      code = status;
    },
    endsByItself: () => undefined,
  });
  const program = new Command("orbweaver").exitOverride().addCommand(benchVerbOf(kit, [of]));
  await program.parseAsync(["bench", "try", ...words], { from: "user" });
  return { code, stdout };
}

describe("orbweaver bench", () => {
  test.each([
    { name: "every bar holds", bars: [GOOD], wantCode: 0 },
    { name: "one does not", bars: [GOOD, BAD], wantCode: 1 },
    { name: "one was not measured", bars: [GOOD, ABSENT], wantCode: 1 },
    { name: "there is none", bars: [], wantCode: 1 },
  ])("$wantCode when $name", async ({ bars, wantCode }) => {
    expect((await bench(benchWith(bars), [])).code).toBe(wantCode);
  });

  test("--json is one document with name, seed, sizes and bars", async () => {
    const { stdout } = await bench(benchWith([GOOD, BAD]), ["--json", "--seed", "9"]);
    expect(JSON.parse(stdout)).toMatchObject({
      name: "try",
      seed: 9,
      holds: false,
      sizes: { "idle-jobs": 5 },
      details: { more: 1 },
      bars: [
        { id: "speed", unit: "ms", paper: 4, want: "<= 10", got: 2.5, holds: true, note: "a note" },
        { id: "speed", unit: "ms", want: "<= 10", got: 20, holds: false },
      ],
    });
  });

  test("the table shows our figure beside the paper's and the wanted one, within 80 columns", async () => {
    const { stdout } = await bench(benchWith([GOOD, BAD, ABSENT]), []);
    const lines = stdout.split("\n");
    expect(lines[1]).toMatch(/^speed +ms +4 +≤ 10 +2.5 +yes$/);
    expect(lines[2]).toMatch(/≤ 10 +20 +NO$/);
    expect(lines[3]).toMatch(/≤ 10 +- +NO$/);
    expect(stdout).toContain("speed: not measured: no server");
    expect(stdout).toContain("1 of 3 bars hold");
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(80);
  });

  test("sizes, texts, choices and the seed reach the bench, or their usual values", async () => {
    const seen: unknown[] = [];
    const of = benchWith([GOOD], ({ seed, size, text, chosen, plotDir }) =>
      seen.push([seed, size("idle-jobs"), text("address"), chosen("only"), plotDir]),
    );
    await bench(of, []);
    await bench(of, ["--seed", "3", "--idle-jobs", "7", "--address", "h:1", "--only", "b"]);
    expect(seen).toEqual([
      [1, 5, undefined, ["a", "b"], undefined],
      [3, 7, "h:1", ["b"], undefined],
    ]);
  });

  test.each([
    [["--idle-jobs", "1"], /--idle-jobs "1" is not a whole number from 2 on/],
    [["--only", "a,c"], /--only "c" is none of a, b/],
    [["--plot", "/tmp"], /unknown option '--plot'/],
  ])("%s is refused", async (words, want) => {
    await expect(bench(benchWith([GOOD]), words)).rejects.toThrow(want);
  });

  test("a word without a flag reaches the bench, and must be one of its choices", async () => {
    const seen: unknown[] = [];
    const plain = benchWith([GOOD], ({ text, size }) =>
      seen.push([text("rival"), size("idle-jobs")]),
    );
    const rival = { kind: "argument", name: "rival", what: "who", choices: ["slurm"] } as const;
    const of: Bench = { ...plain, options: [rival, ...plain.options] };
    await bench(of, ["slurm", "--idle-jobs", "3"]);
    expect(seen).toEqual([["slurm", 3]]);
    await expect(bench(of, ["nomad"])).rejects.toThrow("Allowed choices are slurm");
    await expect(bench(of, [])).rejects.toThrow("missing required argument 'rival'");
  });

  test("--plot is an option of a bench that draws", async () => {
    let dir: string | undefined;
    const of = benchWith([GOOD], ({ plotDir }) => {
      dir = plotDir;
    });
    await bench({ ...of, draws: true }, ["--plot", "figures"]);
    expect(dir).toBe("figures");
  });

  test("the help lists every bench with its examples, and fits 80 columns", async () => {
    const { code, stdout } = await run(["bench", "--help"]);
    expect(code).toBe(0);
    for (const { name, summary, examples } of BENCHES) {
      expect(stdout).toMatch(new RegExp(`${name}.*${summary.slice(0, 20)}`));
      for (const [line] of examples) expect(stdout).toContain(`$ ${line}`);
    }
    const own = await Promise.all(BENCHES.map(({ name }) => run(["bench", name, "--help"])));
    const lines = [stdout, ...own.map((said) => said.stdout)].join("\n").split("\n");
    expect(lines.filter((line) => line.length > 80)).toEqual([]);
  });
});
