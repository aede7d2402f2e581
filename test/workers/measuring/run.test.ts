/** @file A measuring run: what it says, what it skips after a kill, what it reads again, and when it gives up. */

import { appendFileSync, chmodSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import {
  MEASURE_ENV,
  parseReadingLine,
  sharesKey,
  type MeasuredReading,
  type MeasuringOrder,
} from "../../../domain/bandwidth/measuring.ts";
import { ncclTestsText } from "../../../models/bandwidth/stand-in.ts";
import { setCommand } from "../../../workers/measuring/command.ts";
import { doubtfulSets } from "../../../workers/measuring/doubtful.ts";
import { runMeasuring } from "../../../workers/measuring/run.ts";
import { packageRoot } from "../../../workers/server/package-root.ts";

const dataFile = (name: string): string => join(packageRoot(), "data", "bandpilot", name);
const folder = (): string => mkdtempSync(join(tmpdir(), "orbweaver-measuring-"));

const setsOf = (host: string, masks: readonly number[]): MeasuringOrder["sets"] =>
  masks.map((mask) => ({ shares: [[host, mask]], look: `${host} x` }));

const PROGRAM = {
  program: ["all_reduce_perf", "-b", "16M"],
  launcher: ["mpirun"],
  timeoutMs: 60_000,
};

const standIn = (sets: MeasuringOrder["sets"]): MeasuringOrder => ({
  ...PROGRAM,
  sets,
  standIn: {
    intra: dataFile("intra_host_16MB.csv"),
    inter: dataFile("h100_inter_host_16MB.csv"),
    names: { "c/a": "A800", "c/h1": "H100_26", "c/h2": "H100_28" },
    seed: 1,
    noise: 0,
    delayMs: 0,
  },
});

async function ran(
  order: MeasuringOrder,
  dir: string,
  env: Record<string, string> = {},
): Promise<readonly MeasuredReading[]> {
  const lines: string[] = [];
  let clock = 0;
  await runMeasuring({
    env: { ...env, [MEASURE_ENV]: JSON.stringify(order), ORBWEAVER_CHECKPOINT_DIR: dir },
    write: (line) => lines.push(line),
    nowMs: () => (clock += 10),
  });
  return lines.flatMap((line) => parseReadingLine(line) ?? []);
}

describe("a measuring run", () => {
  test("reads sets inside a host and over hosts, through nccl-tests' own words", async () => {
    const over: MeasuringOrder["sets"] = [
      {
        shares: [
          ["c/h1", 1],
          ["c/h2", 4],
        ],
        look: "1",
      },
      {
        shares: [
          ["c/a", 1],
          ["c/h2", 4],
        ],
        look: "2",
      },
    ];
    const readings = await ran(
      standIn([...setsOf("c/h1", [3]), ...setsOf("c/a", [62]), ...over]),
      folder(),
    );
    expect(readings.map(({ gbs }) => Number(gbs?.toFixed(2)))).toEqual([206.5, 42.6, 38.47, 9.62]);
  });

  test("with other messages every reading names them, and they have another bandwidth", async () => {
    const messages = { collective: "all_reduce", bytes: 2 ** 31 } as const;
    const order = standIn(setsOf("c/h1", [3]));
    const [usual] = await ran(order, folder());
    const [large] = await ran({ ...order, messages }, folder());
    expect([usual?.messages, large?.messages]).toEqual([undefined, messages]);
    expect(large?.gbs).toBeGreaterThan(1.3 * (usual?.gbs ?? Infinity));
  });

  test("after a kill it says again what it has and measures the rest", async () => {
    const dir = folder();
    const first = await ran(standIn(setsOf("c/h1", [3, 5])), dir);
    appendFileSync(join(dir, "measured.log"), 'orbweaver-measured {"shares":[["c/h1",6]],"gb');
    const second = await ran(standIn(setsOf("c/h1", [3, 5, 6])), dir);
    expect(second.slice(0, 2)).toEqual(first);
    expect(second.map(({ shares }) => sharesKey(shares))).toEqual(["c/h1:3", "c/h1:5", "c/h1:6"]);
    expect(await ran(standIn(setsOf("c/h1", [3, 5, 6])), dir)).toEqual(second);
  });

  test("a set far from its look is read three times, and a real dip stays", async () => {
    const readings = await ran(standIn(setsOf("c/a", [31, 47, 55, 59, 62])), folder());
    const dips = readings.filter(({ shares }) => sharesKey(shares) === "c/a:62");
    expect(dips.map(({ gbs }) => Number(gbs?.toFixed(1)))).toEqual([42.6, 42.6, 42.6]);
    expect(readings).toHaveLength(7);
  });

  test("only the host of rank 0 measures", async () => {
    expect(await ran(standIn(setsOf("c/h1", [3])), folder(), { NODE_RANK: "1" })).toEqual([]);
  });

  test("a set that the tables lack is noted; when nothing can be measured the run fails", async () => {
    const readings = await ran(
      standIn([...setsOf("c/h1", [3]), ...setsOf("c/other", [3])]),
      folder(),
    );
    expect(readings[1]?.problem).toContain("do not have this set");
    await expect(ran(standIn(setsOf("c/other", [3, 5, 6, 7])), folder())).rejects.toThrow(
      /no set could be measured/,
    );
  });

  test("runs a program on the GPUs of the set and reads what it prints", async () => {
    const dir = folder();
    writeFileSync(join(dir, "out.txt"), ncclTestsText([["c/h1", 6]], 123.5));
    const program = join(dir, "all_reduce_perf");
    writeFileSync(
      program,
      `#!/bin/sh\necho "$CUDA_VISIBLE_DEVICES $*" > ${dir}/seen\ncat ${dir}/out.txt\n`,
    );
    chmodSync(program, 0o755);
    const order = { ...PROGRAM, program: [program, "-b", "16M"], sets: setsOf("c/h1", [6]) };
    const [reading] = await ran(order, dir);
    expect(reading?.gbs).toBeCloseTo(123.5, 2);
    expect(readFileSync(join(dir, "seen"), "utf8")).toBe("1,2 -b 16M -g 2\n");
  });

  test("a program that is not there is the reason", async () => {
    const order = { ...PROGRAM, program: ["/no/such/program"], sets: setsOf("c/h1", [3]) };
    expect((await ran(order, folder()))[0]?.problem).toContain("ENOENT");
  });
});

test("over several hosts each has its own part of mpirun's command line", () => {
  const { argv, env } = setCommand(
    [
      ["eu-1/h1", 0b11],
      ["eu-1/h2", 0b100],
    ],
    PROGRAM,
  );
  expect(argv.join(" ")).toBe(
    "mpirun -np 2 -H h1:2 -x CUDA_VISIBLE_DEVICES=0,1 all_reduce_perf -b 16M -g 1 : -np 1 -H h2:1 -x CUDA_VISIBLE_DEVICES=2 all_reduce_perf -b 16M -g 1",
  );
  expect(env).toEqual({});
});

test.each([
  { what: "one that is half of the others", gbs: [200, 201, 110, 199], want: [2] },
  { what: "none within a quarter", gbs: [200, 240, 170, 199], want: [] },
  { what: "none that was read three times", gbs: [200, 201, 110, 199], again: 2, want: [] },
])("doubted is $what", ({ gbs, again = 0, want }) => {
  const sets = setsOf("c/h1", [3, 5, 6, 9]);
  const once = sets.map(({ shares }, at): MeasuredReading => ({
    shares,
    gbs: gbs[at] ?? 0,
    tookMs: 1,
    atMs: at,
  }));
  const readings = [...once, ...Array.from({ length: again }, () => once[2] ?? once).flat()];
  expect(doubtfulSets({ ...PROGRAM, sets }, readings)).toEqual(want.map((at) => sets[at]));
});
