/**
 * @file The fleets and traces of the experiments: §5.1's testbed and simulator, §5.5's six clusters, A.3's 1 to 64.
 *
 * What the paper leaves open: which links there are (each pair with probability one half beside a tree that joins all, 1 to 15 Gb/s, drawn from the seed; the
 * six clusters are fully meshed at 5 Gb/s; the 64 as in `bench placement`), A100 cards (80 GB, 312 Tflop/s), and 10 ms between clusters.
 */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { cellReader, decimal, readCsv } from "../../domain/values/csv.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { randomFrom } from "../../lib/random.ts";
import type { ClusterFleet } from "../../simulator/spiderflow/play.ts";
import type { ClockFleet } from "../../simulator/spiderflow/step-clock.ts";
import type { TraceJob } from "../../simulator/spiderflow/workload.ts";
import { packageRoot } from "../../workers/server/package-root.ts";
import { drawnTopology } from "../placement/topology.ts";

export interface Scene {
  readonly fleet: ClusterFleet;
  readonly clock: ClockFleet;
}

const NVLINK = { gbs: 25, latencyMs: 0.01 };
const PCIE = { gbs: 4, latencyMs: 0.02 };
const FABRIC = { gbs: 1, latencyMs: 0.05 };
const CARD = { cardGiB: 80, teraflops: 312, wanLatencyMs: 10 };

/** GPUs of the paper's eight servers; its first three have PCIe, the fourth to sixth NVLink. */
const SERVERS = [2, 2, 2, 2, 2, 4, 1, 1] as const;
const NVLINK_SERVERS: ReadonlySet<number> = new Set([3, 4, 5]);

export function testbed(seed: number): Scene {
  const shape = { name: "testbed", gpus: SERVERS, linked: 0.5, widestGbps: 15 };
  return {
    fleet: drawnTopology(shape, randomFrom(seed, "testbed")),
    clock: {
      ...CARD,
      hostGpus: 4,
      fabric: FABRIC,
      insideOf: (cluster) => (cluster < 0 || NVLINK_SERVERS.has(cluster) ? NVLINK : PCIE),
    },
  };
}

export function sixClusters(): Scene {
  const gpus = Array.from({ length: 6 }, () => 512);
  const shape = { name: "six clusters", gpus, linked: 1, widestGbps: 5, isEven: true };
  return { fleet: drawnTopology(shape, randomFrom(1, "six clusters")), clock: largeClock };
}

/** Seven hosts. */
export const CLUSTER_GPUS = 56;

export function manyClusters(count: number, seed: number): Scene {
  const gpus = Array.from({ length: count }, () => CLUSTER_GPUS);
  const shape = { name: `${String(count)} clusters`, gpus, linked: 0.1, widestGbps: 25 };
  return { fleet: drawnTopology(shape, randomFrom(seed, "many clusters")), clock: largeClock };
}

const largeClock: ClockFleet = { ...CARD, hostGpus: 8, fabric: FABRIC, insideOf: () => NVLINK };

export const TRACES = ["Philly", "Helios"] as const;
export type TraceName = (typeof TRACES)[number];

/** So many jobs of a trace that this project brings, in the order of their arrival; a shorter trace is played again after its end. */
export function traceJobs(name: TraceName, count: number): readonly TraceJob[] {
  const all = name === "Philly" ? phillyJobs(count) : heliosJobs();
  const last = all.at(-1);
  if (last === undefined) throw new OrbweaverError("BAD_INPUT", `the trace ${name} is empty`);
  return Array.from({ length: count }, (_, at): TraceJob => {
    const job = all[at % all.length] ?? last;
    return { ...job, arrivalMs: job.arrivalMs + Math.floor(at / all.length) * last.arrivalMs };
  });
}

function phillyJobs(count: number): readonly TraceJob[] {
  const file =
    count <= 1_000 ? "philly-2017-rows-50000-50999.csv" : "philly-2017-rows-40000-49999.csv.gz";
  return rowsOf(file, (cell) => ({
    arrivalMs: Date.parse(`${cell("timestamp").replace(" ", "T")}Z`),
    durationMs: 1_000 * (decimal(cell("duration")) ?? NaN),
  }));
}

const heliosJobs = (): readonly TraceJob[] =>
  rowsOf("helios-venus-2vc-sept.csv.gz", (cell) => ({
    arrivalMs: (decimal(cell("submit_time")) ?? NaN) / 1_000,
    durationMs: 1_000 * (decimal(cell("duration_s")) ?? NaN),
  }));

function rowsOf(
  file: string,
  jobOf: (cell: (column: string) => string) => TraceJob,
): readonly TraceJob[] {
  const bytes = readFileSync(join(packageRoot(), "data", "traces", file));
  const table = readCsv((file.endsWith(".gz") ? gunzipSync(bytes) : bytes).toString("utf8"));
  const reader = cellReader(table);
  const jobs = table.rows.map((row) => jobOf((column) => reader(row, column)));
  const bad = jobs.findIndex((job) => !(job.durationMs >= 0) || Number.isNaN(job.arrivalMs));
  if (bad >= 0)
    throw new OrbweaverError(
      "BAD_INPUT",
      `${file} row ${String(bad + 1)} has no arrival or duration. Restore the file from the package.`,
    );
  const first = jobs.reduce((least, { arrivalMs }) => Math.min(least, arrivalMs), Infinity);
  return jobs
    .map((job) => ({
      arrivalMs: job.arrivalMs - first,
      // A job of no time at all has no step to predict.
      durationMs: Math.max(1_000, job.durationMs),
    }))
    .sort((a, b) => a.arrivalMs - b.arrivalMs);
}
