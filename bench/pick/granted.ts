/**
 * @file How much of the best bandwidth the live fleet's grants have: GBE by replay of a recorded fleet (recorded-fleet.ts), heads and preemptions included.
 *
 * The judge knows the truth alone: the bandwidth of what was granted, and the best that the same number of GPUs of one type could have had
 * among those that were in no lease, and reserved for no other job, just before the grant. Beside it stands the best among
 * all that were in no lease. Grants of one GPU and those without a choice do not count. The same jobs are played once more without a model:
 * that is what topology alone gives, on the fleet that it leads to.
 */

import { popCount } from "../../domain/lease/lease.ts";
import { openSyncPredictor } from "../../models/bandwidth/surrogate.ts";
import { candidateOf, indicesOf } from "../../scheduling/admission/domain-hosts.ts";
import { exactCounts } from "../../scheduling/pick/exact-counts.ts";
import { atLeast, barOf, REPORTED, type Bar } from "../bar.ts";
import type { BenchRequest, BenchTable } from "../bench.ts";
import { mean } from "../statistics.ts";
import { PAPER_SAMPLES } from "./compare.ts";
import { truthPredictor } from "./protocol.ts";
import { recordFleet, type GrantKind, type RecordedGrant } from "./recorded-fleet.ts";
import type { Trainings } from "./trained.ts";
import { PRODUCT_WAY } from "./training-sets.ts";
import type { Truth } from "./truth.ts";

export interface GrantedSetting {
  readonly request: BenchRequest;
  readonly truths: readonly Truth[];
  readonly trainings: Trainings;
}

/** A gang has one GPU type: of a mixed cluster with one host of each, 8 GPUs at most. */
const LARGEST: Readonly<Record<string, number>> = { H100: 24, "Het-4Mix": 8 };
const WANTED: Readonly<Record<string, { readonly gbe: number; readonly worst?: number }>> = {
  H100: { gbe: 99, worst: 85 },
  "Het-4Mix": { gbe: 97 },
};

/** Of one grant, in percent of the best among open GPUs, and among all free ones. */
export interface JudgedGrant {
  readonly kind: GrantKind;
  readonly ofOpen: number;
  readonly ofFree: number;
}

interface Played {
  readonly judged: readonly JudgedGrant[];
  readonly grants: number;
  readonly evictions: number;
}

export async function measureGranted({
  request,
  truths,
  trainings,
}: GrantedSetting): Promise<{ readonly bars: readonly Bar[]; readonly table: BenchTable }> {
  const bars: Bar[] = [];
  const rows: string[][] = [];
  for (const truth of truths) {
    const ours: Played[] = [];
    const compact: Played[] = [];
    for (let at = 0; at < request.size("seeds"); at += 1) {
      request.interrupted.throwIfAborted();
      const seed = request.seed + at;
      request.say(`pick: what a fleet of ${truth.name} grants, seed ${String(seed)}`);
      const target = { samples: PAPER_SAMPLES, seed, training: PRODUCT_WAY };
      const { model } = await trainings(truth, target);
      const predictor = openSyncPredictor(model, truth.domain, { version: "ours" });
      const setting = { seed, jobs: request.size("recorded") };
      ours.push(playOn(truth, { ...setting, ports: { predictorOf: () => predictor } }));
      compact.push(playOn(truth, { ...setting, ports: {} }));
    }
    bars.push(...barsOf(truth.name, ours, compact));
    rows.push(...rowsOf(truth.name, ours));
  }
  const columns = ["grants", "counted", "GBE, %", "worst, %", "of all free, %"];
  return { bars, table: { title: "what the live fleet granted", columns, rows } };
}

export function playOn(
  truth: Truth,
  { seed, jobs, ports }: Pick<Parameters<typeof recordFleet>[1], "seed" | "jobs" | "ports">,
): Played {
  const largest = LARGEST[truth.name] ?? 8;
  const { grants, evictions } = recordFleet(truth.domain, { seed, jobs, largest, ports });
  return {
    judged: grants.flatMap((grant) => judged(truth, grant)),
    grants: grants.length,
    evictions,
  };
}

function judged(truth: Truth, grant: RecordedGrant): readonly JudgedGrant[] {
  const { size, kind, openMasks, freeMasks, gpus } = grant;
  const open = openMasks.reduce((sum, mask) => sum + popCount(mask), 0);
  const pick = candidateOf(gpus, indicesOf(truthPredictor(truth)));
  if (size < 2 || open === size || pick === undefined) return [];
  const gbs = truth.gbs(pick) ?? 0;
  return [
    {
      kind,
      ofOpen: (100 * gbs) / bestOf(truth, openMasks, size),
      ofFree: (100 * gbs) / bestOf(truth, freeMasks, size),
    },
  ];
}

/** Over all types of which there are enough. */
function bestOf(truth: Truth, masks: readonly number[], gpus: number): number {
  const { hosts } = truth.domain;
  const predictor = truthPredictor(truth);
  const types = [...new Set(hosts.map(({ gpuType }) => gpuType))];
  return types.reduce((best, type) => {
    const freeMasks = masks.map((mask, host) => (hosts[host]?.gpuType === type ? mask : 0));
    const found = exactCounts({ predictor, gpus, freeMasks });
    return Math.max(best, found?.predictedGbs ?? 0);
  }, 0);
}

interface Figures {
  readonly gbe: number;
  readonly worst: number;
  readonly ofFree: number;
}

const figuresOf = (all: readonly JudgedGrant[]): Figures => ({
  gbe: mean(all.map(({ ofOpen }) => ofOpen)),
  worst: all.reduce((least, { ofOpen }) => Math.min(least, ofOpen), Infinity),
  ofFree: mean(all.map(({ ofFree }) => ofFree)),
});

function barsOf(name: string, ours: readonly Played[], compact: readonly Played[]): readonly Bar[] {
  const all = ours.flatMap((played) => played.judged);
  const { gbe, worst, ofFree } = figuresOf(all);
  const wanted = WANTED[name];
  const bySeed = ours.map((played) => figuresOf(played.judged).gbe.toFixed(2)).join(", ");
  const target = wanted === undefined ? REPORTED : atLeast(wanted.gbe);
  const topology = figuresOf(compact.flatMap((played) => played.judged));
  return [
    barOf({
      id: `granted GBE ${name}`,
      unit: "%",
      target,
      got: gbe,
      note: `${String(all.length)} grants with a choice; by seed ${bySeed}`,
    }),
    barOf({
      id: `granted worst ${name}`,
      unit: "%",
      target: wanted?.worst === undefined ? REPORTED : atLeast(wanted.worst),
      got: worst,
    }),
    barOf({
      id: `granted GBE of all free ${name}`,
      unit: "%",
      target: REPORTED,
      got: ofFree,
      note: "the best may take GPUs that are reserved for other jobs",
    }),
    barOf({
      id: `granted GBE by topology ${name}`,
      unit: "%",
      target: REPORTED,
      got: topology.gbe,
      note: `worst ${topology.worst.toFixed(1)}`,
    }),
  ];
}

const KINDS: readonly GrantKind[] = ["at once", "head", "preempting"];

function rowsOf(name: string, ours: readonly Played[]): readonly string[][] {
  const all = ours.flatMap((played) => played.judged);
  const grants = ours.reduce((sum, played) => sum + played.grants, 0);
  const evictions = ours.reduce((sum, played) => sum + played.evictions, 0);
  return [
    row(`${name}, all (${String(evictions)} evictions)`, String(grants), all),
    ...KINDS.map((kind) =>
      row(
        `${name}, ${kind}`,
        "",
        all.filter((each) => each.kind === kind),
      ),
    ),
  ];
}

function row(title: string, grants: string, all: readonly JudgedGrant[]): string[] {
  if (all.length === 0) return [title, grants, "0", "", "", ""];
  const { gbe, worst, ofFree } = figuresOf(all);
  return [title, grants, String(all.length), gbe.toFixed(2), worst.toFixed(1), ofFree.toFixed(2)];
}
