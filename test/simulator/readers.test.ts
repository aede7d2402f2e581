/** @file Every trace that comes with the product or lies beside it is read whole: each row is a job, a named bad row, or left out and counted. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gunzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { readNodes } from "../../simulator/readers/nodes.ts";
import { readTrace } from "../../simulator/readers/read-trace.ts";
import type { TraceJobs } from "../../simulator/readers/trace.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const OWN = join(ROOT, "data", "traces");
const SHARED = join(ROOT, "..", "shared", "datasets", "traces");
const hasShared = existsSync(SHARED);

function textOf(path: string): string {
  const bytes = readFileSync(path);
  return (path.endsWith(".gz") ? gunzipSync(bytes) : bytes).toString("utf8");
}

function jobsIn(path: string): TraceJobs & { readonly format: string } {
  const read = readTrace(textOf(path), { source: path });
  if (read.kind !== "jobs") throw new Error(`${path} gives no jobs: ${JSON.stringify(read)}`);
  return read;
}

const gpuHours = ({ jobs }: TraceJobs): number =>
  Math.round(jobs.reduce((sum, { gpus, durationMs }) => sum + gpus * durationMs, 0) / 3_600_000);

const counts = ({ jobs }: TraceJobs): Readonly<Record<string, number>> =>
  Object.fromEntries(
    ["inference", "interactive", "training"].map((name) => [
      name,
      jobs.filter((job) => job.class === name).length,
    ]),
  );

const TRACES = [
  {
    path: join(OWN, "philly-2017-rows-50000-50999.csv"),
    wantFormat: "philly",
    wantJobs: 1_000,
    wantTenants: 10,
  },
  {
    path: join(OWN, "philly-2017-rows-40000-49999.csv.gz"),
    wantFormat: "philly",
    wantJobs: 10_000,
    wantGpuHours: 107_217,
  },
  {
    path: join(OWN, "helios-venus-2vc-sept.csv.gz"),
    wantFormat: "helios",
    wantJobs: 1_867,
    wantTenants: 2,
    wantLargest: 144,
  },
  {
    path: join(OWN, "gavel-msr-ee9e8c-seed0.trace.gz"),
    wantFormat: "gavel",
    wantJobs: 2_000,
    wantLargest: 32,
    wantNotes: [373],
  },
  {
    path: join(OWN, "pai-sampled-2k-24h.csv.gz"),
    wantFormat: "pai",
    wantJobs: 2_000,
    wantClasses: { inference: 280, interactive: 201, training: 1_519 },
    wantNotes: [2_000, 2_000],
  },
  {
    path: join(SHARED, "philly-2017-a.csv.gz"),
    wantFormat: "philly",
    wantJobs: 54_688,
    wantGpuHours: 668_621,
    wantLargest: 32,
  },
  { path: join(SHARED, "pai-sampled-10k-24h.csv.gz"), wantFormat: "pai", wantJobs: 10_000 },
  {
    path: join(SHARED, "openb-2023", "openb_pod_list_default.csv.gz"),
    wantFormat: "openb",
    wantJobs: 8_152 - 1_088,
    wantLeftOut: [{ what: "tasks without a GPU", count: 1_088 }],
    wantClasses: { inference: 4_011, interactive: 105, training: 2_948 },
    wantNotes: [3_078, 861, 1],
    wantLargest: 8,
  },
  {
    path: join(SHARED, "openb-2023", "openb_pod_list_gpushare40.csv.gz"),
    wantFormat: "openb",
    wantJobs: 7_064,
    wantLeftOut: [{ what: "tasks without a GPU", count: 1_088 }],
  },
  {
    path: join(SHARED, "openb-2023", "openb_pod_list_gpuspec33.csv.gz"),
    wantFormat: "openb",
    wantJobs: 7_064,
    wantLeftOut: [{ what: "tasks without a GPU", count: 1_088 }],
  },
  { path: join(SHARED, "tiresias-60-jobs.csv"), wantFormat: "csv", wantJobs: 60, wantNotes: [60] },
  {
    path: join(SHARED, "chronus-philly-mix1.csv.gz"),
    wantFormat: "csv",
    wantJobs: 30_940 - 184,
    wantBadRows: 184,
  },
  { path: join(SHARED, "muri-philly-1.csv.gz"), wantFormat: "csv", wantJobs: 1_494 },
];

describe("the trace", () => {
  it.each(TRACES.filter(({ path }) => existsSync(path)))(
    "$path is $wantFormat of $wantJobs jobs",
    (want) => {
      const trace = jobsIn(want.path);
      const { jobs, account } = trace;
      expect(trace.format).toBe(want.wantFormat);
      expect(jobs).toHaveLength(want.wantJobs);
      expect(account.badRows).toHaveLength(want.wantBadRows ?? 0);
      expect(account.leftOut).toEqual(want.wantLeftOut ?? []);
      if (want.wantNotes !== undefined)
        expect(account.notes.map(({ count }) => count)).toEqual(want.wantNotes);
      if (want.wantGpuHours !== undefined) expect(gpuHours(trace)).toBe(want.wantGpuHours);
      if (want.wantClasses !== undefined) expect(counts(trace)).toEqual(want.wantClasses);
      if (want.wantLargest !== undefined)
        expect(Math.max(...jobs.map(({ gpus }) => gpus))).toBe(want.wantLargest);
      if (want.wantTenants !== undefined)
        expect(new Set(jobs.map(({ tenant }) => tenant)).size).toBe(want.wantTenants);
      expectSound(trace);
    },
  );

  // Without that folder there is no such test, rather than one that is skipped.
  it.each(hasShared ? ["18"] : [])(
    "of Sia is read in all %s workloads, and says that run times are made up",
    () => {
      const folders = ["newtrace", "philly"].map((name) => join(SHARED, "sia-workloads", name));
      const traces = folders.flatMap((folder) =>
        readdirSync(folder).map((name) => jobsIn(join(folder, name))),
      );
      expect(traces.map(({ jobs }) => jobs.length).sort((a, b) => a - b)).toEqual([
        ...Array<number>(8).fill(160),
        ...Array<number>(10).fill(960),
      ]);
      for (const trace of traces) {
        expect(trace.format).toBe("sia");
        expect(trace.account.notes.map(({ count }) => count)).toEqual([trace.jobs.length]);
        expectSound(trace);
      }
    },
  );
});

/** What holds of every trace. */
function expectSound({ jobs, account }: TraceJobs): void {
  const leftOut = account.leftOut.reduce((sum, { count }) => sum + count, 0);
  expect(account.rows).toBe(jobs.length + account.badRows.length + leftOut);
  expect(jobs[0]?.submittedAtMs).toBe(0);
  expect(new Set(jobs.map(({ id }) => id)).size).toBe(jobs.length);
  const isSound = jobs.every(
    ({ id, submittedAtMs, durationMs, gpus }, at) =>
      !/\s/.test(id) &&
      submittedAtMs >= (jobs[at - 1]?.submittedAtMs ?? 0) &&
      Number.isSafeInteger(durationMs) &&
      durationMs >= 1 &&
      Number.isInteger(gpus) &&
      gpus >= 1,
  );
  expect(isSound).toBe(true);
}

it("a Helios Earth file is load: 4,464 samples and no job", () => {
  const path = join(OWN, "helios-earth-load-vcvlY.csv.gz");
  const load = readTrace(textOf(path), { source: path });
  expect(load).toMatchObject({ kind: "load", account: { rows: 4_464, badRows: [] } });
  expect(load.kind === "load" ? load.samples[0] : undefined).toEqual({
    atMs: Date.UTC(2020, 4, 1),
    runningGpus: 64,
    pendingGpus: 0,
    idleGpus: 32,
    runningJobs: 3,
    pendingJobs: 0,
  });
});

const NODE_LISTS = [
  ["openb-2023/openb_node_list_all_node.csv", 1_213, 6_212, 310],
  ["openb-2023/openb_node_list_gpu_node.csv", 1_213, 6_212, 0],
  ["alibaba-2020-machines.csv", 1_814, 6_742, 83],
  ["alibaba-2026-spot-nodes.csv", 4_278, 10_412, 0],
  ["philly-machines.csv", 539, 3_205, 13],
] as const;

it.each(hasShared ? NODE_LISTS : [])(
  "the machines of %s are %i hosts with %i GPUs and %i without",
  (file, wantHosts, wantGpus, wantWithout) => {
    const read = readNodes(textOf(join(SHARED, file)), { source: file });
    if (read.kind !== "nodes") throw new Error("no machines");
    expect(read.nodes).toHaveLength(wantHosts);
    expect(read.nodes.reduce((sum, { gpus }) => sum + gpus, 0)).toBe(wantGpus);
    expect(read.account.leftOut.map(({ count }) => count)).toEqual(
      wantWithout === 0 ? [] : [wantWithout],
    );
    expect(read.account.badRows).toEqual([]);
  },
);
