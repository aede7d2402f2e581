/** @file Picks judged by the bandwidth that they achieve on a fabric: ours, rivals with the same measurements, topology alone, and the oracle. */

import type { BandwidthPredictor } from "../../../domain/bandwidth/bandwidth-port.ts";
import { randomFrom, type Random } from "../../../lib/random.ts";
import { trainBoostedTrees } from "../../../models/bandwidth/boosted-trees.ts";
import { nearestNeighbour } from "../../../models/bandwidth/nearest-neighbour.ts";
import {
  accuracyOf,
  openSyncPredictor,
  trainSurrogate,
} from "../../../models/bandwidth/surrogate.ts";
import { eha } from "../../../scheduling/pick/balanced.ts";
import type { FabricSpec } from "../../fabric/fabric-file.ts";
import { readLinks } from "../links.ts";
import { randomChoice, topo } from "../rivals.ts";
import { stopwatch } from "../speed.ts";
import { productChooser, type Chooser } from "./entrants.ts";
import { openField, type FabricField } from "./field.ts";
import { knowingChooser, worthWithoutPaths } from "./knowing.ts";
import { measuredSets } from "./measured.ts";
import { oracle, type OracleEffort } from "./oracle.ts";
import { drawnFabricState } from "./states.ts";

export interface AtScalePlan extends OracleEffort {
  readonly gpus: number;
  readonly seed: number;
  readonly samples: number;
  readonly states: number;
  /** Picks of ours whose time is taken, beside those that are judged. */
  readonly timed: number;
  readonly say: (line: string) => void;
}

/** Of one pick. */
export interface JudgedPick {
  readonly entrant: string;
  readonly state: number;
  readonly gpus: number;
  readonly gbs: number;
  /** Its mean over other hashes of paths: what was to be expected of it. */
  readonly expectedGbs: number;
  readonly bestGbs: number;
}

export interface AtScaleFound {
  readonly picks: readonly JudgedPick[];
  /** Of our model on the sets that it learned from. */
  readonly mapePercent: number;
  /** Processor time of each timed pick of ours. */
  readonly pickMs: readonly number[];
}

export const OURS = "ours";
export const TOPOLOGY = "topology alone";
export const KNOWING = "all but the paths known";

export async function judgeFabric(spec: FabricSpec, plan: AtScalePlan): Promise<AtScaleFound> {
  const { seed, gpus, samples, states, say } = plan;
  const field = openField(spec, { gpus, seed });
  const random = randomFrom(seed, `picks on ${spec.name}`);
  say(`measures ${String(samples)} sets and learns from them`);
  const { domain } = field;
  const sets = measuredSets(field, { count: samples, random: random.stream("measured") });
  const model = await trainSurrogate({ domain, samples: sets, seed });
  const ours = openSyncPredictor(model, domain, { version: "ours" });
  const entrants = choosers(field, { ours, sets, random, plan });
  const knowing = knowingChooser(field, { ...plan, random: random.stream("all but the paths") });
  const worthIn = worthWithoutPaths(field);
  const picks: JudgedPick[] = [];
  for (let at = 0; at < states; at += 1) {
    say(`state ${String(at + 1)} of ${String(states)}`);
    const own = random.stream(`state ${String(at)}`);
    const state = drawnFabricState(field, own);
    const others = [...entrants].map(([entrant, choose]) => ({ entrant, pick: choose(state) }));
    const known = knowing(
      state,
      others.map(({ pick }) => pick),
    );
    const chosen = [...others, { entrant: KNOWING, pick: known }];
    const worth = worthIn(state);
    const best = oracle(field, state, {
      randomSets: plan.randomSets,
      patience: plan.patience,
      entrants: chosen.map(({ pick }) => pick),
      random: own.stream("oracle"),
    });
    for (const { entrant, pick } of chosen)
      picks.push({
        ...{ entrant, state: at, gpus: state.gpus, bestGbs: best.gbs },
        gbs: field.truth.gbs(pick, state.neighbours),
        expectedGbs: worth(pick),
      });
  }
  say(`times ${String(plan.timed)} picks`);
  const pickMs = timedPicks(field, productChooser(field, ours), {
    count: plan.timed,
    random: random.stream("timed"),
  });
  return { picks, mapePercent: accuracyOf(ours, sets).mapePercent, pickMs };
}

const WARM_UP = 20;

/** On states of their own. */
function timedPicks(
  field: FabricField,
  choose: Chooser,
  { count, random }: { readonly count: number; readonly random: Random },
): readonly number[] {
  const times: number[] = [];
  for (let at = 0; at < count + WARM_UP; at += 1) {
    const state = drawnFabricState(field, random.stream(`state ${String(at)}`));
    const time = stopwatch();
    choose(state);
    if (at >= WARM_UP) times.push(time().cpuMs);
  }
  return times;
}

function choosers(
  field: FabricField,
  {
    ours,
    sets,
    random,
    plan,
  }: {
    readonly ours: BandwidthPredictor;
    readonly sets: Parameters<typeof trainBoostedTrees>[0]["samples"];
    readonly random: Random;
    readonly plan: AtScalePlan;
  },
): ReadonlyMap<string, Chooser> {
  const { domain } = field;
  const compact = topo(domain, readLinks());
  const rival = randomChoice(random.stream("Random"));
  return new Map<string, Chooser>([
    [OURS, productChooser(field, ours)],
    [TOPOLOGY, productChooser(field)],
    [
      "boosted trees",
      productChooser(field, trainBoostedTrees({ domain, samples: sets, seed: plan.seed })),
    ],
    ["nearest neighbour", productChooser(field, nearestNeighbour({ domain, samples: sets }))],
    ["Topo", (state) => compact({ ...state, isForced: false })],
    [
      "EHA",
      (state) =>
        eha({ predictor: ours, ...state }, { work: 600 })?.pick ??
        compact({ ...state, isForced: false }),
    ],
    ["Random", (state) => rival({ ...state, isForced: false })],
  ]);
}
