/**
 * @file A trace as a workload of the simulator: cut to its first jobs, fitted to a fleet, and brought to a load.
 *
 * The load is the share of the fleet's GPU time between the first and the last arrival that the jobs would take if each began as it came. What
 * would still run after the last arrival is not counted: in traces with runs of months it is most of all work, and a fleet that gets it
 * late is not busy. To reach a load, the times between arrivals are stretched or compressed by one factor; sizes and run times stay. GPU types
 * that the fleet does not have are dropped from a job's demands and counted, since a trace's models are seldom those of the fleet that is asked about.
 * A job stays in one cluster where one is large enough, as the traces' jobs did; one that is larger than the fleet is left out and counted.
 */

import type { ClusterShape, FleetShape, TenantRule } from "../../domain/fleet/fleet.ts";
import { tenantId } from "../../domain/values/ids.ts";
import { gpuTypeName } from "../../domain/values/gpu-types.ts";
import type { Workload, WorkloadJob } from "../workload.ts";
import type { TraceJobs } from "./trace.ts";

export interface TraceWorkloadOptions {
  readonly name: string;
  readonly fleet: FleetShape;
  /** As the trace has it when absent. */
  readonly load?: number;
  /** The first so many jobs; all when absent. */
  readonly jobs?: number;
}

export function traceWorkload(
  { jobs: all, account }: TraceJobs,
  { name, fleet, load, jobs: most = all.length }: TraceWorkloadOptions,
): Workload {
  const chosen = all.slice(0, most);
  const sizes = fleet.clusters.map(gpusOf);
  const gpus = sizes.reduce((sum, size) => sum + size, 0);
  const possible = inOneCluster(chosen, { gpus, largest: Math.max(0, ...sizes) });
  const { jobs: fitted, freed } = withTypesOf(fleet, possible);
  const { jobs, factor } = atLoad(fitted, { load, gpus });
  const notes = [
    ...account.notes.map(({ what, count }) => `${String(count)} ${what}`),
    ...account.leftOut.map(({ what, count }) => `${String(count)} ${what} left out`),
    ...(account.badRows.length > 0
      ? [`${String(account.badRows.length)} rows could not be read`]
      : []),
    ...(chosen.length < all.length
      ? [`the first ${String(chosen.length)} of ${String(all.length)} jobs`]
      : []),
    ...(possible.length < chosen.length
      ? [`${String(chosen.length - possible.length)} jobs larger than the fleet left out`]
      : []),
    ...(freed > 0
      ? [`${String(freed)} jobs wanted GPU types that the fleet does not have; they take any`]
      : []),
    ...(factor !== 1
      ? [
          `times between arrivals × ${factor.toPrecision(4)}, for a load of ${String(load)} up to the last arrival`,
        ]
      : []),
  ];
  return { name, jobs, tenants: tenantsOf(jobs), notes };
}

const gpusOf = ({ hosts }: ClusterShape): number =>
  hosts.reduce((sum, { gpuCount }) => sum + gpuCount, 0);

const inOneCluster = (
  jobs: readonly WorkloadJob[],
  { gpus: all, largest }: { readonly gpus: number; readonly largest: number },
): readonly WorkloadJob[] =>
  jobs.flatMap((job) => {
    if (job.gpus > all) return [];
    if (job.gpus > largest) return [job];
    return [{ ...job, constraints: { maxClusters: 1, ...job.constraints } }];
  });

function withTypesOf(
  fleet: FleetShape,
  jobs: readonly WorkloadJob[],
): { readonly jobs: readonly WorkloadJob[]; readonly freed: number } {
  const types = new Set(fleet.clusters.flatMap(({ hosts }) => hosts.map(({ gpuType }) => gpuType)));
  let freed = 0;
  const fitted = jobs.map((job) => {
    const { gpuTypes: wanted, ...others } = job.constraints ?? {};
    if (wanted === undefined) return job;
    const gpuTypes = wanted.map(gpuTypeName).filter((type) => types.has(type));
    if (gpuTypes.length > 0) return { ...job, constraints: { ...others, gpuTypes } };
    freed += 1;
    const { constraints: _, ...free } = job;
    return Object.keys(others).length === 0 ? free : { ...free, constraints: others };
  });
  return { jobs: fitted, freed };
}

function atLoad(
  jobs: readonly WorkloadJob[],
  { load, gpus }: { readonly load: number | undefined; readonly gpus: number },
): { readonly jobs: readonly WorkloadJob[]; readonly factor: number } {
  const spanMs = jobs.at(-1)?.submittedAtMs ?? 0;
  // Jobs that all come at once have no times between them to stretch.
  if (load === undefined || spanMs === 0) return { jobs, factor: 1 };
  const factor = factorFor(jobs, { wantedGpus: load * gpus, spanMs });
  const stretched = jobs.map((job) => ({
    ...job,
    submittedAtMs: Math.round(job.submittedAtMs * factor),
  }));
  return { jobs: stretched, factor };
}

/** Halvings of the range of factors, which is fifteen orders of magnitude wide: to a relative error below one in a million. */
const HALVINGS = 50;

/**
 * The factor f at which the mean number of GPUs in use is as wanted: Σ gpus · min(duration, f·(span − arrival)) ÷ (f · span). It falls as f
 * grows, so that halving finds it; the smallest factor when even jobs that all come at once are too few.
 */
function factorFor(
  jobs: readonly WorkloadJob[],
  { wantedGpus, spanMs }: { readonly wantedGpus: number; readonly spanMs: number },
): number {
  const gpusAt = (factor: number): number =>
    jobs.reduce(
      (sum, { gpus, durationMs, submittedAtMs }) =>
        sum + (gpus * Math.min(durationMs / factor, spanMs - submittedAtMs)) / spanMs,
      0,
    );
  let [low, high] = [Math.log(1e-6), Math.log(1e9)];
  for (let halving = 0; halving < HALVINGS; halving += 1) {
    const middle = (low + high) / 2;
    if (gpusAt(Math.exp(middle)) > wantedGpus) low = middle;
    else high = middle;
  }
  return Math.exp((low + high) / 2);
}

function tenantsOf(jobs: readonly WorkloadJob[]): readonly TenantRule[] {
  const names = [...new Set(jobs.map(({ tenant }) => tenant))].sort();
  return names.map((name) => ({ id: tenantId(name), weight: 1, quota: {}, borrowingLimit: 0 }));
}
