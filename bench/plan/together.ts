/**
 * @file Plan and place together beside place first, then plan: the step of drawn jobs on fleets with uneven fabrics, in part taken.
 *
 * Both decide by the live fleet's `decide` on one ledger: ours with the prices of the decider's thread, the rival without; the lease is planned as
 * a running job's is. Clusters of one GPU type differ in their fabrics by up to 80 times, links between clusters by up to 20 times; of the hosts
 * some are free, some taken, some taken in part. Jobs that the rival cannot place, or whose model does not fit where it places them, are drawn
 * anew and counted.
 */

import { planPrices } from "../../activities/plan-prices.ts";
import type { FleetShape } from "../../domain/fleet/fleet.ts";
import { MODEL_PRESETS } from "../../domain/model/model-presets.ts";
import { gpuCountOf, type GangRequest, type HostGpus } from "../../domain/lease/lease.ts";
import type { Plan } from "../../domain/lease/plan.ts";
import { clusterId, hostId, jobId, runId, tenantId } from "../../domain/values/ids.ts";
import { gbps, gib, ms, watts } from "../../domain/values/units.ts";
import { trainingText } from "../../domain/job/training-text.ts";
import { fullMask } from "../../lib/bits.ts";
import { randomFrom, type Random } from "../../lib/random.ts";
import { fleetSite } from "../../planning/parallelism/fleet-site.ts";
import { planModel } from "../../planning/parallelism/plan-operators.ts";
import { presetModel } from "../../planning/parallelism/transformer-layers.ts";
import { decide } from "../../scheduling/cycle/decide.ts";
import { apply } from "../../scheduling/ledger/apply/apply.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import { readyLedger } from "../../simulator/scheduler.ts";
import { solverFor } from "../../solvers/index.ts";
import { atMost, barOf, REPORTED, type Bar } from "../bar.ts";
import type { BenchTable } from "../bench.ts";
import { mean, quantile } from "../statistics.ts";

const FABRIC_GBPS = [10, 25, 100, 200, 400, 800] as const;
const LINK_GBPS = [5, 10, 25, 50, 100] as const;
const MODELS = ["gpt2-350m", "gpt2-1.3b", "opt-6.7b", "llama-7b", "llama-3-8b", "llama-13b"];
const BATCHES = [64, 128, 256, 512] as const;
const SIZES = [8, 12, 16, 16, 24, 32, 32, 48, 64] as const;
const HOST_GPUS = 8;
const JOBS = 100;

export interface DrawnJob {
  readonly ledger: Ledger;
  readonly model: string;
  readonly batch: number;
}

interface Judged {
  readonly gpus: number;
  /** Step with the place of both together ÷ step with the place first. */
  readonly ratio: number;
  readonly isMoved: boolean;
  /** Of a processor. */
  readonly decideMs: number;
}

export async function measureTogether(
  seed: number,
  say: (line: string) => void,
): Promise<{ readonly bars: readonly Bar[]; readonly table: BenchTable }> {
  const judged: Judged[] = [];
  let left = 0;
  for (let draw = 0; judged.length < JOBS; draw += 1) {
    const job = drawJob(randomFrom(seed, `together ${String(draw)}`));
    const found = await judge(job);
    if (found === undefined) left += 1;
    else judged.push(found);
    if (judged.length % 20 === 0) say(`plan: ${String(judged.length)} of ${JOBS} jobs placed`);
  }
  const ratios = judged.map(({ ratio }) => ratio);
  const moved = judged.filter(({ isMoved }) => isMoved);
  const times = judged.map(({ decideMs }) => decideMs);
  return {
    bars: [
      barOf({
        id: "together-step",
        unit: "×",
        target: atMost(0.95),
        got: mean(ratios),
        note: `of ${String(JOBS)} jobs, mean of step with plan and place together ÷ place first; ${String(moved.length)} got another place, ${String(left)} draws left out`,
      }),
      barOf({
        id: "together-worst",
        unit: "×",
        target: REPORTED,
        got: Math.max(...ratios),
        note: "the job that fares worst",
      }),
      barOf({
        id: "together-decide",
        unit: "ms",
        target: REPORTED,
        got: quantile(times, 0.99),
        note: `processor time of a decision with prices, p99; median ${quantile(times, 0.5).toFixed(1)}`,
      }),
    ],
    table: {
      title: "Plan and place together ÷ place first, then plan",
      columns: ["GPUS", "JOBS", "MOVED", "MEAN", "BEST", "WORST"],
      rows: [...new Set(SIZES)].map((gpus) => {
        const own = judged.filter((each) => each.gpus === gpus);
        const of = own.map(({ ratio }) => ratio);
        return [
          String(gpus),
          String(own.length),
          String(own.filter(({ isMoved }) => isMoved).length),
          ...(of.length === 0
            ? ["", "", ""]
            : [mean(of), Math.min(...of), Math.max(...of)].map((ratio) => ratio.toFixed(3))),
        ];
      }),
    },
  };
}

const NOW_MS = 1_000;

/** Undefined where the rival has no place, or no plan for it. */
async function judge(job: DrawnJob): Promise<Judged | undefined> {
  const { ledger } = job;
  const usual = grantOf(decide(ledger, NOW_MS));
  if (usual === undefined) return undefined;
  const before = process.cpuUsage();
  const priced = decide(ledger, NOW_MS, { pricesOf: planPrices(ledger.shape) });
  const used = process.cpuUsage(before);
  const decideMs = (used.user + used.system) / 1_000;
  const together = grantOf(priced);
  if (together === undefined) throw new Error("prices took the place of a job");
  const gpus = gpuCountOf(usual);
  const isMoved = JSON.stringify(usual) !== JSON.stringify(together);
  const usualMs = await stepOn(job, usual);
  if (usualMs === undefined) return undefined;
  const togetherMs = isMoved ? await stepOn(job, together) : usualMs;
  return { gpus, isMoved, decideMs, ratio: (togetherMs ?? Infinity) / usualMs };
}

const grantOf = ({ items }: Plan): readonly HostGpus[] | undefined =>
  items.find(({ request }) => request.jobId === jobId(JOB))?.gpus;

async function stepOn(
  { ledger, model, batch }: DrawnJob,
  gpus: readonly HostGpus[],
): Promise<number | undefined> {
  const shape = MODEL_PRESETS.get(model);
  if (shape === undefined) throw new RangeError(`no ${model}`);
  const { answer } = await planModel({
    model: presetModel(model, shape),
    site: fleetSite(gpus, ledger.shape),
    batch,
    random: randomFrom(1, "plan"),
    solver: solverFor,
  });
  return answer.kind === "planned" ? answer.plan.stepMs : undefined;
}

const JOB = "job";

export function drawJob(random: Random): DrawnJob {
  const of = <T>(list: readonly T[]): T => {
    const one = list[random.below(list.length)];
    if (one === undefined) throw new RangeError("an empty list");
    return one;
  };
  const shape = drawShape(random, of);
  let ledger = readyLedger(shape);
  for (const [at, { id }] of shape.clusters.flatMap(({ hosts }) => hosts).entries()) {
    const kind = random.unit();
    const busy = kind < 0.4 ? 0 : kind < 0.55 ? HOST_GPUS : 1 + random.below(HOST_GPUS - 1);
    if (busy > 0)
      ledger = withLease(ledger, `busy-${String(at)}`, { host: id, mask: fullMask(busy) });
  }
  const [model, batch, gpus] = [of(MODELS), of(BATCHES), of(SIZES)];
  const training = trainingText({
    class: "training",
    gang: { gpus, min: gpus, timeoutMs: ms(0) },
    model,
    batch,
  });
  if (training === undefined) throw new Error("a drawn job says what it trains");
  const constraints = {
    isSameHost: false,
    isSameFabric: false,
    maxClusters: of([1, 1, 2, 3]),
    training,
  };
  return { ledger: asked(ledger, { name: JOB, gpus, constraints }), model, batch };
}

function drawShape(random: Random, of: <T>(list: readonly T[]) => T): FleetShape {
  const names = Array.from({ length: 3 + random.below(3) }, (_, at) => `c${String(at)}`);
  return {
    clusters: names.map((name) => ({
      id: clusterId(name),
      site: name,
      jurisdiction: "EU",
      fabricGbps: gbps(of(FABRIC_GBPS)),
      isSimulated: true,
      hosts: Array.from({ length: 3 + random.below(8) }, (_, host) => ({
        id: hostId(name, `h${String(host)}`),
        gpuType: "H100",
        gpuCount: HOST_GPUS,
        gpuMemoryGiB: gib(80),
        gpuWatts: watts(700),
        nvlinkDomains: [fullMask(HOST_GPUS)],
      })),
    })),
    links: names.flatMap((from, at) =>
      names.slice(at + 1).map((to) => ({
        from: clusterId(from),
        to: clusterId(to),
        bandwidthGbps: gbps(of(LINK_GBPS)),
        latencyMs: ms(2 + random.below(29)),
      })),
    ),
    tenants: [],
  };
}

function asked(
  ledger: Ledger,
  {
    name,
    gpus,
    constraints,
  }: Pick<GangRequest, "name" | "constraints"> & { readonly gpus: number },
): Ledger {
  const request: GangRequest = {
    jobId: jobId(name),
    runId: runId(`${name}-run`),
    seq: 1,
    name,
    tenant: tenantId("t"),
    class: "training",
    priority: 0,
    submittedAtMs: 0,
    requestedAtMs: 0,
    gang: { gpus, min: gpus, timeoutMs: ms(30_000) },
    constraints,
  };
  return apply(ledger, { kind: "inbox", entries: [{ kind: "request", request }], nowMs: 0 }).ledger;
}

function withLease(ledger: Ledger, name: string, part: HostGpus): Ledger {
  const plain = { isSameHost: false, isSameFabric: false };
  const after = asked(ledger, { name, gpus: gpuCountOf([part]), constraints: plain });
  const item = {
    kind: "grant",
    request: { jobId: jobId(name), runId: runId(`${name}-run`), seq: 1 },
    gpus: [part],
    reason: "busy",
  } as const;
  const plan = { items: [item], pending: [], stats: { method: "decide", candidates: 0 } } as const;
  return apply(after, { kind: "plan", plan, nowMs: 0 }).ledger;
}
