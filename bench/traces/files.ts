/**
 * @file The files of the traces: those that come with the product, and those that only the shared data sets beside the repository have.
 *
 * Sia's workloads state no licence, so they are read where they lie, or the trace is not measured. Its ten files are joined in the order of
 * their numbers, each beginning a mean time between arrivals after the one before.
 */

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { readTrace } from "../../simulator/readers/read-trace.ts";
import type { TraceJobs } from "../../simulator/readers/trace.ts";
import type { WorkloadJob } from "../../simulator/workload.ts";
import { packageRoot } from "../../workers/server/package-root.ts";
import type { TraceName } from "./definition.ts";

const OWN = "data/traces";
const SHARED = "../shared/datasets/traces";

const NEWTRACE = Array.from(
  { length: 10 },
  (_, at) => `sia-workloads/newtrace/workload-${String(at + 1)}.csv`,
);

const FILES: Readonly<Record<TraceName, readonly string[]>> = {
  philly: ["philly-2017-a.csv.gz"],
  helios: ["helios-venus-2vc-sept.csv.gz", "helios-venus-2vc-sept.csv"],
  pai: ["pai-sampled-10k-24h.csv.gz"],
  chronus: ["chronus-philly-mix1.csv.gz"],
  sia: NEWTRACE,
  gavel: ["gavel-msr-ee9e8c-seed0.trace.gz"],
};

export type Found =
  | { readonly trace: TraceJobs; readonly why?: undefined }
  | { readonly trace?: undefined; readonly why: string };

/** `datasets`: a folder with the shared data sets, instead of the one beside the repository. */
export async function traceFiles(name: TraceName, datasets: string | undefined): Promise<Found> {
  const folders = [join(packageRoot(), OWN), datasets ?? join(packageRoot(), SHARED)];
  const names = FILES[name];
  const parts: TraceJobs[] = [];
  for (const file of names) {
    const text = await firstOf(folders.map((folder) => join(folder, file)));
    if (text === undefined) continue;
    const read = readTrace(text, { source: file });
    if (read.kind !== "jobs") return { why: `${file} cannot be read` };
    parts.push(read);
    if (name !== "sia") break;
  }
  const [first] = parts;
  if (first === undefined)
    return { why: `none of ${names.join(", ")} is in ${folders.join(" or ")}` };
  return { trace: parts.length === 1 ? first : { ...first, jobs: joined(parts) } };
}

async function firstOf(paths: readonly string[]): Promise<string | undefined> {
  for (const path of paths) {
    const bytes = await readFile(path).catch(() => undefined);
    if (bytes !== undefined)
      return (path.endsWith(".gz") ? gunzipSync(bytes) : bytes).toString("utf8");
  }
  return undefined;
}

function joined(parts: readonly TraceJobs[]): readonly WorkloadJob[] {
  const all: WorkloadJob[] = [];
  let fromMs = 0;
  for (const [at, { jobs }] of parts.entries()) {
    for (const job of jobs)
      all.push({
        ...job,
        id: `${String(at)}-${job.id}`,
        submittedAtMs: fromMs + job.submittedAtMs,
      });
    const lastMs = jobs.at(-1)?.submittedAtMs ?? 0;
    fromMs += lastMs + Math.round(lastMs / Math.max(1, jobs.length - 1));
  }
  return all;
}
