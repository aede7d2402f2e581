/**
 * @file What various worlds have besides: gangs that shrink, grow and ask for certain hosts, hosts with racks, limits on watts and maintenance, fleets that begin with former
 * rules and are upgraded, and what learners and link monitors tell.
 *
 * Each concern draws from a stream of its own. Half of the seeds are planned by the product's `decide`, which alone offers smaller gangs.
 */

import type { ClusterShape, FleetShape } from "../domain/fleet/fleet.ts";
import type { JobSpec } from "../domain/job/job.ts";
import { gib, ms, watts } from "../domain/values/units.ts";
import type { Random } from "../lib/random.ts";
import { NEWEST_RULES } from "../scheduling/ledger/ledger.ts";
import {
  CALM_AT_MS,
  EPOCH_MS,
  type DrawnJob,
  type Fault,
  type Order,
  type Settings,
} from "./settings.ts";

export function madeVarious(settings: Settings, random: Random): Settings {
  const shape = describedMore(settings.shape, random.stream("fleet"));
  const { rules, upgrades } = drawUpgrade(random.stream("rules"));
  return {
    ...settings,
    shape,
    jobs: drawGangs(settings.jobs, shape, random.stream("gangs")),
    faults: [...settings.faults, ...drawNews(random.stream("news"))].sort(
      (a, b) => a.atMs - b.atMs,
    ),
    orders: [...settings.orders, ...upgrades].sort((a, b) => a.atMs - b.atMs),
    isDeciding: random.stream("planner").below(2) === 0,
    ...(rules !== undefined && { rules }),
  };
}

/** Each limit leaves room for all GPUs at once: the dice know of none. */
const AMPLE_WATTS = watts(700 * 100);

function describedMore(shape: FleetShape, { below }: Random): FleetShape {
  const clusters = shape.clusters.map((cluster): ClusterShape => {
    const fromMs = EPOCH_MS + 20_000 + below(150_000);
    const isLimited = below(2) === 0;
    return {
      ...cluster,
      ...(isLimited && { powerBudgetWatts: AMPLE_WATTS }),
      racks: [{ id: "r0", ...(isLimited && { coolingBudgetWatts: AMPLE_WATTS }) }, { id: "r1" }],
      hosts: cluster.hosts.map((host, at) => ({
        ...host,
        rack: `r${at % 2}`,
        ...(isLimited && { cpus: 64, hostMemoryGiB: gib(512) }),
      })),
      maintenance:
        below(3) === 0
          ? [
              {
                ...(below(2) === 0 && { hosts: cluster.hosts.slice(0, 1).map(({ id }) => id) }),
                fromMs,
                toMs: fromMs + 30_000,
              },
            ]
          : [],
    };
  });
  const sites = shape.clusters.map(({ site }) => ({ id: site, powerBudgetWatts: AMPLE_WATTS }));
  return { ...shape, clusters, sites: sites.slice(0, below(sites.length + 1)) };
}

function drawGangs(
  jobs: readonly DrawnJob[],
  { clusters }: FleetShape,
  random: Random,
): readonly DrawnJob[] {
  const { below } = random;
  return jobs.map((job): DrawnJob => {
    const { spec } = job;
    const { gang, constraints, run } = spec;
    const isElastic = below(2) === 0 && spec.array === undefined && gang.gpus > 1;
    const cluster = clusters[below(clusters.length)];
    const isConstrained = below(3) === 0;
    const isSaving = below(3) === 0;
    const more: Partial<JobSpec> = {
      ...(isElastic && {
        gang: {
          ...gang,
          min: 1,
          timeoutMs: ms(2_000 + below(20_000)),
          ...(below(2) === 0 && { mayGrow: true }),
          ...(below(3) === 0 && { shapes: [1] }),
        },
        preemption: { isPreemptible: true, mayShrink: below(2) === 0, minRuntimeMs: ms(1_000) },
      }),
      ...(isConstrained && {
        constraints: {
          ...constraints,
          gpuTypes: ["H100"],
          gpuMemoryGiB: gib(40),
          jurisdictions: ["EU"],
          maxClusters: 1,
          ...(cluster !== undefined &&
            below(2) === 0 && { clusters: clusters.map(({ id }) => id) }),
        },
      }),
      ...(isSaving && {
        run: {
          ...run,
          resources: { per: "gpu", cpus: 2, memoryGiB: gib(4) },
          checkpoint: {
            order: { kind: "signal", signal: "USR1" },
            graceMs: ms(5_000),
            ...(below(2) === 0 && { intervalMs: ms(10_000) }),
          },
        },
        timeLimitMs: ms(600_000),
      }),
    };
    return { ...job, spec: { ...spec, ...more } };
  });
}

/** Operators upgrade soon: former rules break laws that newer ones keep. */
function drawUpgrade({ below }: Random): {
  readonly rules: number | undefined;
  readonly upgrades: readonly Order[];
} {
  if (below(2) === 0) return { rules: undefined, upgrades: [] };
  const atMs = 3_000 + below(12_000);
  return {
    rules: 1 + below(NEWEST_RULES - 1),
    upgrades: [{ kind: "upgrade", atMs, target: 0, forMs: 0 }],
  };
}

const drawNews = ({ below }: Random): readonly Fault[] =>
  Array.from({ length: below(6) }, (): Fault => {
    const what = (["model", "links", "checkpoints", "goodbye"] as const)[below(4)] ?? "model";
    const atMs = 10_000 + below(CALM_AT_MS - 50_000);
    return { kind: "news", what, atMs, target: below(1_000), forMs: 5_000 + below(40_000) };
  });
