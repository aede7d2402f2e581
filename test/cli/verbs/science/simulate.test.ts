/** @file `orbweaver simulate`: traces and drawn jobs through the command, its files, and what it says of bad input. */
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { run, type Said } from "../../run.ts";

const DATA = fileURLToPath(new URL("../../../../data/", import.meta.url));
const CWD = mkdtempSync(join(tmpdir(), "orbweaver-simulate-"));

const file = (name: string, content: string | Buffer): string => {
  writeFileSync(join(CWD, name), content);
  return name;
};
const simulated = (...words: readonly string[]): Promise<Said> =>
  run(["simulate", ...words], { cwd: CWD });

const JOBS = "submit_time,duration,gpus,class,tenant\n";
const SMALL = `${JOBS}${Array.from({ length: 30 }, (_, at) => `${String(at * 5)},20,${String(at % 4 === 0 ? 8 : 1)},${at % 3 === 0 ? "inference" : "training"},t${String(at % 2)}`).join("\n")}\n`;
const TRACE = file("small.csv", SMALL);

interface Document {
  readonly inputs: readonly {
    readonly format: string;
    readonly rows: number;
    readonly badRows: readonly { readonly line: number }[];
  }[];
  readonly results: readonly {
    readonly policy: string;
    readonly jobs: { readonly submitted: number; readonly ended: number };
    readonly workload: { readonly offeredLoad: number };
    readonly fleet: { readonly gpus: number };
  }[];
}

async function documentOf(...words: readonly string[]): Promise<Document> {
  const { code, stdout, stderr } = await simulated(...words, "--json");
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  // The command's own document; each test looks at the parts that it needs.
  return JSON.parse(stdout) as Document;
}

describe("a trace", () => {
  it("is simulated and summed up in at most 80 columns", async () => {
    const { code, stdout, stderr } = await simulated(TRACE, "--gpus", "16");
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    for (const line of stdout.split("\n")) expect(line.length).toBeLessThanOrEqual(80);
    expect(stdout).toMatch(/^workload +small, 30 jobs$/m);
    expect(stdout).toMatch(/^fleet +16 GPUs, 2 hosts, 1 site$/m);
    expect(stdout).toMatch(/^POLICY +UTILISED/m);
    expect(stdout).toMatch(/^inference +tawfq/m);
    expect(stdout).toMatch(/^training +tawfq/m);
  });

  it("as JSON is one document, the same bytes each time", async () => {
    const first = await simulated(TRACE, "--gpus", "16", "--json");
    const second = await simulated(TRACE, "--gpus", "16", "--json");
    expect(second.stdout).toBe(first.stdout);
    const { inputs, results } = await documentOf(TRACE, "--gpus", "16");
    expect(inputs).toMatchObject([{ format: "csv", rows: 30, badRows: [] }]);
    expect(results).toMatchObject([{ policy: "tawfq", jobs: { submitted: 30, ended: 30 } }]);
  });

  it("is read gzipped, whatever it is called", async () => {
    const packed = file("packed.csv", gzipSync(SMALL));
    expect((await documentOf(packed, "--gpus", "16")).inputs[0]?.rows).toBe(30);
  });

  it("of another's format is known by its first line", async () => {
    const trace = join(DATA, "traces", "philly-2017-rows-50000-50999.csv");
    const { inputs, results } = await documentOf(trace, "--gpus", "64", "--jobs", "100");
    expect(inputs[0]).toMatchObject({ format: "philly", rows: 1_000 });
    expect(results[0]?.jobs).toMatchObject({ submitted: 100, ended: 100 });
  });

  it("is brought to the load that is asked for", async () => {
    const offered = async (load: string): Promise<number> =>
      (await documentOf(TRACE, "--gpus", "16", "--load", load)).results[0]?.workload.offeredLoad ??
      0;
    expect(await offered("0.8")).toBeGreaterThan(1.3 * (await offered("0.4")));
  });

  it("with rows that cannot be read names them and simulates the others", async () => {
    const rows = Array.from({ length: 7 }, (_, at) => `${String(at)},x,1,training,t`).join("\n");
    const bad = file("bad.csv", `${SMALL}${rows}\n`);
    const { code, stdout } = await simulated(bad, "--gpus", "16");
    expect(code).toBe(0);
    expect(stdout).toContain("7 of 37 rows of bad.csv could not be read:");
    expect(stdout).toContain('bad.csv:32: the duration is "x"; write seconds, 0 or more');
    expect(stdout).toContain("and 2 more; --json names them all");
    const { inputs } = await documentOf(bad, "--gpus", "16");
    expect(inputs[0]?.badRows.map(({ line }) => line)).toEqual([32, 33, 34, 35, 36, 37, 38]);
  });
});

describe("several policies", () => {
  it("stand side by side, in the order asked for", async () => {
    const { results } = await documentOf(TRACE, "--gpus", "16", "--policy", "drf,fifo");
    expect(results.map(({ policy }) => policy)).toEqual(["drf", "fifo"]);
  });

  it("are written job by job as CSV, and as one report", async () => {
    const words = ["--policy", "tawfq,fifo", "--csv", "jobs-out.csv", "--html", "report.html"];
    const { code, stderr } = await simulated(TRACE, "--gpus", "16", ...words);
    expect({ code, stderr }).toEqual({
      code: 0,
      stderr: "· wrote jobs-out.csv\n· wrote report.html\n",
    });
    const lines = readFileSync(join(CWD, "jobs-out.csv"), "utf8").trimEnd().split("\n");
    expect(lines).toHaveLength(1 + 2 * 30);
    expect(lines[0]).toBe(
      "policy,id,class,tenant,gpus,submittedAtMs,durationMs,firstGrantAtMs,endedAtMs,queuedMs,preemptions,failures,grantedGpus",
    );
    for (const line of lines) expect(line.split(",")).toHaveLength(13);
    expect(readFileSync(join(CWD, "report.html"), "utf8")).toContain("Waits, inference");
  });
});

describe("a fleet", () => {
  it("may be a fleet file", async () => {
    const { results } = await documentOf(TRACE, "--fleet", join(DATA, "fleets", "small.yaml"));
    expect(results[0]?.fleet.gpus).toBeGreaterThan(0);
  });

  it("may be a list of machines", async () => {
    const nodes = file("nodes.csv", "sn,cpu_milli,memory_mib,gpu,model\na,1,1,8,T4\nb,1,1,8,T4\n");
    const { inputs, results } = await documentOf(TRACE, "--fleet", nodes);
    expect(results[0]?.fleet.gpus).toBe(16);
    expect(inputs.map(({ format }) => format)).toEqual(["csv", "machines"]);
  });
});

it("without a trace draws the paper's mix, the same from one seed", async () => {
  const words = ["--gpus", "64", "--jobs", "80", "--load", "0.5", "--seed", "7"];
  const drawn = await documentOf(...words);
  expect(drawn.results[0]?.fleet.gpus).toBe(64);
  expect(drawn.results[0]?.jobs.submitted).toBeGreaterThan(60);
  expect(await documentOf(...words)).toEqual(drawn);
});

describe("wrong input is one line and ends with 2", () => {
  it.each([
    ["a trace that is not there", ["none.csv"], "none.csv does not exist. Name a trace."],
    [
      "a policy that is none",
      ["--policy", "lifo"],
      '--policy "lifo" is none of fifo, fifo-backfill, bin-packing, drf, drf-backfill, easy, conservative, tawfq. Write one or several of these with commas between.',
    ],
    [
      "a load that is none",
      ["--load", "90%"],
      '--load "90%" is not a share above 0 and at most 10. Write e.g. --load 0.9.',
    ],
    [
      "a cost without a unit",
      ["--preemption-cost", "2"],
      '--preemption-cost "2" has no unit; write 2s.',
    ],
    [
      "two fleets",
      ["--fleet", "f.yaml", "--gpus", "8"],
      "--fleet and --gpus are both a fleet. Give one of them.",
    ],
    [
      "a format without a trace",
      ["--format", "sia"],
      "--format is that of a trace. Name the trace.",
    ],
    [
      "a place that cannot be written",
      [TRACE, "--gpus", "16", "--csv", "no/where.csv"],
      "no/where.csv cannot be written (ENOENT). Name a file in a folder that is there and writable.",
    ],
    [
      "load instead of jobs",
      [join(DATA, "traces", "helios-earth-load-vcvlY.csv.gz")],
      `${join(DATA, "traces", "helios-earth-load-vcvlY.csv.gz")} is the load of a cluster (4464 samples), not its jobs: it does not say when a job came or how long it ran, so nothing can be scheduled. Give a trace of jobs, e.g. of Helios Venus.`,
    ],
  ])("%s", async (_name, words, wantText) => {
    const { code, stdout, stderr } = await simulated(...words);
    expect({ code, stdout, stderr }).toEqual({
      code: 2,
      stdout: "",
      stderr: `error BAD_INPUT: ${wantText}\n`,
    });
  });

  it.each([
    ["a text that is no trace", file("x.csv", "a,b\n1,2\n"), "that of no known trace"],
    [
      "a gzip file that is cut",
      file("cut.gz", gzipSync(SMALL).subarray(0, 40)),
      "cannot be unpacked",
    ],
    ["machines", file("m.csv", "sn,gpu,model\na,8,T4\n"), "a list of machines, not of jobs"],
  ])("%s", async (_name, trace, wantText) => {
    const { code, stderr } = await simulated(trace);
    expect(code).toBe(2);
    expect(stderr).toContain(wantText);
  });
});
