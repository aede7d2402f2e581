/**
 * @file What a seed draws: the fleet, the jobs, the faults and the orders of people, each as a list, so that a part of it can be left out and the rest
 * stays as it is.
 */

import { parseJobFile } from "../domain/job/job-file.ts";
import type { JobClass, JobSpec } from "../domain/job/job.ts";
import { DEFAULT_POLICY, type FleetShape } from "../domain/fleet/fleet.ts";
import { DEPENDENCY_EVENTS } from "../domain/job/dependency.ts";
import { clusterId, hostId, tenantId, type JobId } from "../domain/values/ids.ts";
import { gbps, gib, ms, watts } from "../domain/values/units.ts";
import { randomFrom, type Random } from "../lib/random.ts";
import { harshened } from "./harsh.ts";
import { madeHostile } from "./hostile.ts";
import { madeMerciless } from "./merciless.ts";
import { madeRuthless } from "./ruthless.ts";
import { madeVarious } from "./various.ts";
import {
  CALM_AT_MS,
  ORDERS,
  WIDE_ORDERS,
  type DrawnJob,
  type Fault,
  type HostileFault,
  type Order,
  type Settings,
} from "./settings.ts";

/** One host is gone at most, and scenes are drawn by themselves: no weight draws them. */
type DrawnKind = Exclude<Fault["kind"], HostileFault["kind"] | "gone" | "abandon" | "copies">;

const FAULTS: readonly (readonly [kind: DrawnKind, weight: number])[] = [
  ["crash", 10],
  ["pause", 6],
  ["late", 4],
  ["cut", 7],
  ["weather", 4],
  ["reboot", 3],
  ["server-down", 2],
  ["refuse", 2],
  ["clock", 2],
  ["lose-disk", 2],
  ["end-job", 2],
  ["end-fleet", 1],
  ["end-lobby", 1],
];

/** Most faults are short; some last longer than a silence, and some longer than a fence. */
const SHORT_MS = (below: Random["below"]): number => 500 + below(20_000);
const SPANS_MS: readonly ((below: Random["below"]) => number)[] = [
  ...Array.from({ length: 7 }, () => SHORT_MS),
  (below) => 20_000 + below(100_000),
  (below) => 20_000 + below(100_000),
  (below) => 100_000 + below(150_000),
];

const CLASSES: readonly JobClass[] = ["training", "training", "interactive", "inference"];
const TENANTS = ["red", "red", "blue", "green"].map(tenantId);
const GPU_TYPE = "H100";

export interface DrawOptions {
  readonly isDeciding?: boolean;
  /** Seeds that once broke a law keep their worlds. */
  readonly climate?: Climate;
}

/**
 * `narrow`: without arrays, jobs that follow others, and the wider orders. `wide`: with them. `harsh`: with scenes (`harsh.ts`) besides. `hostile`, the
 * usual: with broken disks and clocks, strangers and resets (`hostile.ts`) besides. `ruthless`: with resets to later tasks and of called jobs, and hosts that cannot
 * obey (`ruthless.ts`), besides. `merciless`: with GPUs that break and are drained (`merciless.ts`) besides. `various`: with other
 * gangs, hosts and rules (`various.ts`) besides.
 */
export type Climate =
  "narrow" | "wide" | "harsh" | "hostile" | "ruthless" | "merciless" | "various";

export function drawSettings(
  seed: number,
  { isDeciding = seed % 10 === 0, climate = "hostile" }: DrawOptions = {},
): Settings {
  const narrow = drawNarrow(seed, isDeciding);
  if (climate === "narrow") return narrow;
  const wide = widened(narrow, randomFrom(seed, "wide world"));
  if (climate === "wide") return wide;
  const harsh = harshened(wide, randomFrom(seed, "harsh world"));
  if (climate === "harsh") return harsh;
  const hostile = madeHostile(harsh, randomFrom(seed, "hostile world"));
  if (climate === "hostile") return hostile;
  const ruthless = madeRuthless(hostile, randomFrom(seed, "ruthless world"));
  if (climate === "ruthless") return ruthless;
  const merciless = madeMerciless(ruthless, randomFrom(seed, "merciless world"));
  return climate === "merciless"
    ? merciless
    : madeVarious(merciless, randomFrom(seed, "various world"));
}

function drawNarrow(seed: number, isDeciding: boolean): Settings {
  const random = randomFrom(seed, "world");
  const shape = drawShape(random.stream("fleet"));
  const gone = drawGone(random.stream("gone"), shape);
  const lost = gone?.kind === "gone" ? gone.host : undefined;
  const staying = shape.clusters[0]?.hosts.filter(({ id }) => id !== lost) ?? [];
  const most = staying.reduce((sum, { gpuCount }) => sum + gpuCount, 0);
  const faults = [...drawFaults(random.stream("faults")), ...(gone === undefined ? [] : [gone])];
  return {
    seed,
    shape,
    jobs: drawJobs(random.stream("jobs"), most),
    faults: faults.sort((a, b) => a.atMs - b.atMs),
    orders: drawOrders(random.stream("orders")),
    isDeciding,
  };
}

function drawShape(random: Random): FleetShape {
  const { below } = random;
  const silenceMs = ms(15_000 + 5_000 * below(4));
  const fenceMs = ms(45_000 + 15_000 * below(5));
  const clusters = Array.from({ length: 1 + below(2) }, (_, at) => {
    const id = clusterId(`c${at}`);
    return {
      id,
      site: `site-${at}`,
      jurisdiction: "EU",
      fabricGbps: gbps(400),
      isSimulated: false,
      silenceMs,
      fenceMs,
      ...(below(10) === 0 && { onSilence: "hold" as const }),
      hosts: Array.from({ length: 2 + below(3) }, (_each, host) => ({
        id: hostId(id, `h${host}`),
        gpuType: GPU_TYPE,
        gpuCount: 2 + 2 * below(2),
        gpuMemoryGiB: gib(80),
        gpuWatts: watts(700),
      })),
    };
  });
  const quota = below(3) === 0 ? { [GPU_TYPE]: 3 + below(4) } : {};
  return {
    clusters,
    links: [],
    tenants: [
      { id: tenantId("red"), weight: 1, quota, borrowingLimit: 0 },
      { id: tenantId("blue"), weight: 2, quota: {}, borrowingLimit: 0 },
    ],
    policy: { ...DEFAULT_POLICY, places: [3, 6, 12, 40][below(4)] ?? 12 },
  };
}

let plain: JobSpec | undefined;

/** One process that does nothing; a seed fills in the rest. */
function plainSpec(): JobSpec {
  if (plain !== undefined) return plain;
  const parsed = parseJobFile({
    name: "job",
    gang: { gpus: 1, timeout: "30s" },
    run: { command: ["true"], grace: "2s" },
  });
  if (parsed.kind === "refused") throw new Error("the world's own job file is wrong");
  plain = parsed.spec;
  return plain;
}

function drawJobs(random: Random, most: number): readonly DrawnJob[] {
  const { below } = random;
  const keeping = random.stream("kept hosts");
  const count = 20 + below(9);
  return Array.from({ length: count }, (_, at): DrawnJob => {
    const gpus = below(4) === 0 ? Math.min(most, 3 + below(4)) : 1 + below(2);
    const tenant = TENANTS[below(TENANTS.length)] ?? tenantId("red");
    const base = plainSpec();
    const preemption = { isPreemptible: below(2) === 0, mayShrink: false, minRuntimeMs: ms(1_000) };
    // A quota may be as small as three GPUs.
    const size = tenant === "red" ? Math.min(gpus, 3) : gpus;
    return {
      id: `job-${at}`,
      atMs: below(220_000),
      // Some outlive any fence.
      runMs: below(6) === 0 ? 40_000 + below(160_000) : 1_000 + below(25_000),
      failures: below(4) === 0 ? 1 + below(2) : 0,
      spec: {
        ...base,
        name: `job-${at}`,
        tenant,
        class: CLASSES[below(CLASSES.length)] ?? "training",
        priority: below(3),
        gang: { ...base.gang, gpus: size, min: size },
        retry: { attempts: 1 + below(3), backoffMs: ms(2_000) },
        preemption,
        // Gangs that lose a host: half of them keep nothing, the others for a while that ends in the story, or goes on to its end.
        replaceMs: ms([0, 0, 15_000, 300_000][keeping.below(4)] ?? 0),
        isHeld: below(20) === 0,
        ...(below(15) === 0 && { deadlineMs: ms(60_000 + below(300_000)) }),
      },
    };
  });
}

/** They come in waves: quiet minutes and rough ones. */
function drawFaults(random: Random): readonly Fault[] {
  const { below } = random;
  // What one seed has much of, another has not at all.
  const weights = FAULTS.map(
    ([kind, weight]) => [kind, weight * ([0, 1, 1, 4][below(4)] ?? 1)] as const,
  );
  const total = weights.reduce((sum, [, weight]) => sum + weight, 0);
  const waves = Array.from({ length: 1 + below(3) }, () => 10_000 + below(CALM_AT_MS - 60_000));
  const count = 10 + below(14);
  const faults = Array.from({ length: count }, (): Fault => {
    const wave = waves[below(waves.length)] ?? 0;
    const atMs = below(3) === 0 ? 5_000 + below(CALM_AT_MS - 40_000) : wave + below(30_000);
    const forMs = SPANS_MS[below(SPANS_MS.length)]?.(below) ?? 0;
    const common = { atMs, target: below(1_000), forMs };
    let left = below(Math.max(1, total));
    const kind = weights.find(([, weight]) => (left -= weight) < 0)?.[0] ?? "crash";
    switch (kind) {
      case "cut":
        return {
          ...common,
          kind,
          direction: (["both", "there", "back"] as const)[below(3)] ?? "both",
        };
      case "weather":
        return { ...common, kind, lost: below(30) / 100, meanDelayMs: 5 + below(600) };
      case "clock":
        return { ...common, kind, byMs: below(2_000) - 1_000 };
      default:
        return { ...common, kind };
    }
  });
  return faults;
}

/** In some seeds one host never comes back; everything has to end without it. A cluster that holds what is silent would wait for it for ever. */
function drawGone({ below }: Random, { clusters }: FleetShape): Fault | undefined {
  const cluster = clusters.at(-1);
  const host = cluster?.hosts.at(-1);
  const isDrawn = below(3) === 0;
  const atMs = 10_000 + below(CALM_AT_MS - 50_000);
  if (!isDrawn || host === undefined || cluster?.onSilence === "hold") return undefined;
  return { kind: "gone", atMs, target: 0, forMs: 0, host: host.id };
}

function drawOrders(random: Random): readonly Order[] {
  const { below } = random;
  const orders = Array.from({ length: 5 + below(8) }, (): Order => {
    const atMs = 5_000 + below(CALM_AT_MS - 20_000);
    const kind = ORDERS[below(ORDERS.length)] ?? "cancel";
    return { atMs, target: below(1_000), kind, forMs: 5_000 + below(60_000) };
  });
  return orders.sort((a, b) => a.atMs - b.atMs);
}

/** More kinds of jobs and orders, each from a stream of its own. */
function widened(settings: Settings, random: Random): Settings {
  const { jobs, orders } = settings;
  return {
    ...settings,
    jobs: [
      ...withFollowers(jobs, random.stream("followers")),
      ...drawArrays(random.stream("arrays")),
    ],
    orders: [...orders, ...drawWideOrders(random.stream("orders"))].sort((a, b) => a.atMs - b.atMs),
  };
}

function drawArrays({ below }: Random): readonly DrawnJob[] {
  return Array.from({ length: 1 + below(3) }, (_, at): DrawnJob => {
    const base = plainSpec();
    const tenant = TENANTS[below(TENANTS.length)] ?? tenantId("red");
    const gpus = 1 + below(2);
    const count = 3 + below(below(4) === 0 ? 40 : 12);
    return {
      id: `array-${at}`,
      atMs: below(200_000),
      runMs: below(5) === 0 ? 20_000 + below(60_000) : 500 + below(8_000),
      failures: below(3),
      spec: {
        ...base,
        name: `array-${at}`,
        tenant,
        class: CLASSES[below(CLASSES.length)] ?? "training",
        priority: below(3),
        gang: { ...base.gang, gpus, min: gpus },
        retry: { attempts: 1 + below(3), backoffMs: ms(2_000) },
        preemption: { isPreemptible: below(2) === 0, mayShrink: false, minRuntimeMs: ms(1_000) },
        array: {
          count,
          parallel: Math.min(count, 1 + below(4)),
          ...(below(5) === 0 && { tasks: `1-${1 + below(count - 1)}` }),
        },
        isHeld: below(15) === 0,
        ...(below(10) === 0 && { deadlineMs: ms(60_000 + below(300_000)) }),
      },
    };
  });
}

/** Some jobs wait for one that was submitted before. */
function withFollowers(jobs: readonly DrawnJob[], { below }: Random): readonly DrawnJob[] {
  return jobs.map((job): DrawnJob => {
    const former = jobs.filter(({ atMs }) => atMs < job.atMs);
    const before = former[below(Math.max(1, former.length))];
    const on = DEPENDENCY_EVENTS[below(DEPENDENCY_EVENTS.length)] ?? "end";
    const mayFollowFailure = below(2) === 0;
    if (below(8) !== 0 || before === undefined) return job;
    const after = [{ job: before.id as JobId, on }]; // as drawn
    const spec = {
      ...job.spec,
      after,
      ...(mayFollowFailure && { mayFollowFailure: true as const }),
    };
    return { ...job, spec };
  });
}

function drawWideOrders({ below }: Random): readonly Order[] {
  return Array.from({ length: 3 + below(6) }, (): Order => {
    const atMs = 5_000 + below(CALM_AT_MS - 20_000);
    const kind = WIDE_ORDERS[below(WIDE_ORDERS.length)] ?? "amend";
    return { atMs, target: below(1_000), kind, forMs: 5_000 + below(60_000) };
  });
}
