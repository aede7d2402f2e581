/**
 * @file The full product on the jobs of `bench spiderflow`: the fleet's own `decide` with its queue, backfill, preemption and degradation, in the simulator of
 * `orbweaver simulate`, whose pace is that of a step here.
 *
 * A gang may be halved where half its GPUs hold the model; the batch stays, so the work does. A job's limit is `LIMIT` times the trace's duration: users say
 * too much, and nothing is killed for it. Links are shared as the ledger has it: every gang over several clusters counts on the paths between all of
 * them. Its figures stand beside the others and in no bar: no rival may do what it does. Cost: that of a simulation.
 */

import type { FleetShape, Link } from "../../domain/fleet/fleet.ts";
import { clusterId, hostId, type HostId } from "../../domain/values/ids.ts";
import { gpuCountOf, type Lease } from "../../domain/lease/lease.ts";
import { gbps, gib, ms, watts } from "../../domain/values/units.ts";
import { addLoad, linksOf, openLoads, widestFrom } from "../../scheduling/placement/link-graph.ts";

import { DECIDE_POLICIES } from "../../scheduling/cycle/decide.ts";
import { schedulerWith } from "../../simulator/scheduler.ts";
import type { RateOf } from "../../simulator/options.ts";
import { runSimulation } from "../../simulator/simulate.ts";
import type { JobOutcome, Outcome } from "../../simulator/spiderflow/play.ts";
import { NOWHERE, type StepClock } from "../../simulator/spiderflow/step-clock.ts";
import type { TrainingJob } from "../../simulator/spiderflow/workload.ts";
import type { WorkloadJob } from "../../simulator/workload.ts";
import type { Scene } from "./scenes.ts";

export const PRODUCT = "the product";

const LIMIT = 2;

export function playProduct(jobs: readonly TrainingJob[], scene: Scene, clock: StepClock): Outcome {
  const { fleet } = scene;
  const { shape, clusterOf } = shapeOf(scene);
  const byId = new Map(jobs.map((job) => [idOf(job), job]));
  const clustersOf = new Map<string, number>();
  const rateOf: RateOf = ({ id }, lease, held) => {
    const job = byId.get(id);
    if (job === undefined) throw new Error(`${id} is no job of this workload`);
    const own = partsOf(lease, clusterOf);
    clustersOf.set(id, own.length);
    const bare = openLoads(fleet.graph);
    const links = openLoads(fleet.graph);
    for (const other of held) {
      if (other.id === lease.id) continue;
      const clusters = partsOf(other, clusterOf).map(({ cluster }) => cluster);
      addLoad(links, linksOf(bare, clusters), 1);
    }
    const widths = own.map(({ cluster }) => widestFrom(links, cluster));
    const gbsBetween = (a: number, b: number): number =>
      (widths[a]?.[own[b]?.cluster ?? 0] ?? 0) / 8;
    const batch = batchOf(job);
    const step = clock({ model: job.model, batch, parts: own, gbsBetween }, "sparing");
    if (step === undefined) throw new Error(`${id}: ${job.model.name} does not fit its GPUs`);
    return (job.gpus * stepTogether(job, job.gpus, clock)) / step.stepMs;
  };
  const result = runSimulation({
    fleet: shape,
    workload: {
      name: "training jobs",
      jobs: jobs.map((job) => submitted(job, fleet.gpus.length, clock)),
      tenants: [],
      notes: [],
    },
    policy: PRODUCT,
    openScheduler: schedulerWith(DECIDE_POLICIES),
    seed: 1,
    keepsJobs: true,
    samples: 1,
    rateOf,
  });
  const outcomes = (result.jobRows ?? []).map((row): JobOutcome => {
    const job = byId.get(row.id);
    const { firstGrantAtMs, endedAtMs, queuedMs } = row;
    if (job === undefined || firstGrantAtMs === null || endedAtMs === null)
      throw new Error(`the product never ran ${row.id}`);
    const completionMs = endedAtMs - row.submittedAtMs;
    return {
      number: job.number,
      gpus: row.grantedGpus,
      clusters: clustersOf.get(row.id) ?? 1,
      queuedMs,
      completionMs,
      runMs: endedAtMs - firstGrantAtMs,
      workGpuMs: job.gpus * job.durationMs,
      throughput: (1_000 * samplesOf(job, clock)) / (completionMs - queuedMs),
      startMs: firstGrantAtMs,
    };
  });
  return {
    method: PRODUCT,
    jobs: outcomes,
    makespanMs: Math.max(...outcomes.map(({ startMs, runMs }) => startMs + runMs)),
    utilisation: usedShare(outcomes, jobs.at(-1)?.arrivalMs ?? 0, fleet.gpus),
    decisions: result.decisions.cycles,
  };
}

const idOf = ({ number }: TrainingJob): string => `job-${String(number)}`;
const batchOf = ({ gpus, samplesPerGpu }: TrainingJob): number => gpus * samplesPerGpu;

function stepTogether(job: TrainingJob, gpus: number, clock: StepClock): number {
  const { model } = job;
  const parts = [{ cluster: NOWHERE, gpus }];
  const question = { model, batch: batchOf(job), parts, gbsBetween: () => Infinity };
  return clock(question, "planned")?.stepMs ?? Infinity;
}

const samplesOf = (job: TrainingJob, clock: StepClock): number =>
  (job.durationMs / stepTogether(job, job.gpus, clock)) * batchOf(job);

function submitted(job: TrainingJob, clusters: number, clock: StepClock): WorkloadJob {
  const { gpus, durationMs } = job;
  const half = gpus / 2;
  const isHalved = Number.isInteger(half) && stepTogether(job, half, clock) < Infinity;
  return {
    id: idOf(job),
    submittedAtMs: job.arrivalMs,
    durationMs,
    gpus,
    ...(isHalved && { minGpus: half, shapes: [half] }),
    class: "training",
    tenant: "researchers",
    estimateMs: LIMIT * durationMs,
    constraints: { maxClusters: clusters },
  };
}

/** Work is taken as even over a job's time from its first grant on. */
function usedShare(jobs: readonly JobOutcome[], lastMs: number, gpus: readonly number[]): number {
  const all = gpus.reduce((sum, own) => sum + own, 0);
  const done = jobs.reduce((sum, { startMs, runMs, workGpuMs }) => {
    const share = Math.min(1, Math.max(0, (lastMs - startMs) / runMs));
    return sum + share * workGpuMs;
  }, 0);
  return lastMs === 0 ? 0 : done / (lastMs * all);
}

interface Shaped {
  readonly shape: FleetShape;
  readonly clusterOf: ReadonlyMap<HostId, number>;
}

function shapeOf({ fleet, clock }: Scene): Shaped {
  const { graph, gpus } = fleet;
  const clusterOf = new Map<HostId, number>();
  const ids = gpus.map((_, cluster) => clusterId(`c${String(cluster)}`));
  const clusters = ids.map((id, cluster) => {
    const own = gpus[cluster] ?? 0;
    const hosts = Array.from({ length: Math.ceil(own / clock.hostGpus) }, (_, at) => {
      const host = hostId(id, `h${String(at)}`);
      clusterOf.set(host, cluster);
      return {
        id: host,
        gpuType: "A100",
        gpuCount: Math.min(clock.hostGpus, own - at * clock.hostGpus),
        gpuMemoryGiB: gib(clock.cardGiB),
        gpuWatts: watts(400),
      };
    });
    return {
      id,
      site: id,
      jurisdiction: "EU",
      fabricGbps: gbps(8 * clock.fabric.gbs),
      isSimulated: true,
      hosts,
    };
  });
  const links = ids.flatMap((from, a) =>
    ids.slice(a + 1).flatMap((to, at): Link[] => {
      const width = graph.gbps[a * graph.count + a + 1 + at] ?? 0;
      if (width <= 0) return [];
      return [{ from, to, bandwidthGbps: gbps(width), latencyMs: ms(clock.wanLatencyMs) }];
    }),
  );
  return { shape: { clusters, links, tenants: [] }, clusterOf };
}

function partsOf({ gpus }: Lease, clusterOf: ReadonlyMap<HostId, number>) {
  const counts = new Map<number, number>();
  for (const part of gpus) {
    const cluster = clusterOf.get(part.host) ?? 0;
    counts.set(cluster, (counts.get(cluster) ?? 0) + gpuCountOf([part]));
  }
  return [...counts].map(([cluster, own]) => ({ cluster, gpus: own }));
}
