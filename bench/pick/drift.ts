/**
 * @file Drift: the network card of one host falls to a quarter, and the model learns it from the jobs that run.
 *
 * True from then on: a quarter for every group over several hosts that has a GPU on the first host. The stale model goes on picking; each
 * of its picks over several hosts is measured, and after 25, 50 and 100 of them it is fine-tuned. On the way every fourth job is
 * picked for learning's sake: at random among the ways of its scenario, as placements in a fleet are not all free choices. The mark is
 * a model trained from nothing on 250 sets of the new truth. All play the same scenarios.
 */

import type { BandwidthPredictor, BandwidthSample } from "../../domain/bandwidth/bandwidth-port.ts";
import { randomFrom } from "../../lib/random.ts";
import { openSyncPredictor, trainSurrogate } from "../../models/bandwidth/surrogate.ts";
import { searchPick } from "../../scheduling/pick/search-pick.ts";
import { atLeast, atMost, barOf, REPORTED, type Bar } from "../bar.ts";
import type { BenchTable } from "../bench.ts";
import { mean } from "../statistics.ts";
import { PAPER_SAMPLES } from "./compare.ts";
import { readLinks } from "./links.ts";
import { bestGbs, figuresOf, judge, searching } from "./protocol.ts";
import { randomChoice, topo } from "./rivals.ts";
import { gpusOf, scenariosOf } from "./scenarios.ts";
import { modelFor, type Setting } from "./speed.ts";
import { setsFor } from "./training-sets.ts";
import type { Truth } from "./truth.ts";

const LEFT = 0.25;
const SLOW_HOST = 0;
const STEPS = [25, 50, 100];
const EXPLORED_EVERY = 4;
const EACH = 10;
/** What the stale model must lose for the drift to be hard enough. */
const HARD_ENOUGH = 5;
const WITHIN = 2;

export async function measureDrift(setting: Setting): Promise<{
  readonly bars: readonly Bar[];
  readonly table: BenchTable;
}> {
  const { request } = setting;
  const found: Drifted[] = [];
  for (let at = 0; at < request.size("seeds"); at += 1)
    found.push(await driftOf({ ...setting, request: { ...request, seed: request.seed + at } }));
  const left = (step: number): readonly number[] =>
    found.map(({ goal, after }) => goal - (after.get(step) ?? NaN));
  const texts = (values: readonly number[]): string =>
    values.map((value) => value.toFixed(1)).join(", ");
  const lost = found.map(({ goal, stale }) => goal - stale);
  const last = STEPS.at(-1) ?? 0;
  return {
    table: {
      title:
        "Drift: one host's network card at a quarter, GBE in percent on the new truth, by seed",
      columns: ["SEED", "NEW", "STALE", ...STEPS.map((step) => `${String(step)} JOBS`)],
      rows: found.map(({ goal, stale, after }, at) => [
        String(request.seed + at),
        goal.toFixed(2),
        stale.toFixed(2),
        ...STEPS.map((step) => (after.get(step) ?? NaN).toFixed(2)),
      ]),
    },
    bars: [
      barOf({
        id: "drift: stale model loses",
        unit: "points",
        target: atLeast(HARD_ENOUGH),
        got: Math.min(...lost),
        note: `the least of the seeds; ${texts(lost)}`,
      }),
      barOf({
        id: "drift: left after 100 jobs",
        unit: "points",
        target: atMost(WITHIN),
        got: Math.max(...left(last)),
        note: `the most of the seeds; ${texts(left(last))}; from nothing on the new truth is 0`,
      }),
      ...STEPS.slice(0, -1).map((step) =>
        barOf({
          id: `drift: left after ${String(step)} jobs`,
          unit: "points",
          target: REPORTED,
          got: mean(left(step)),
          note: `mean of ${texts(left(step))}`,
        }),
      ),
    ],
  };
}

/** GBE in percent on the new truth. */
interface Drifted {
  /** Of a model trained from nothing on it. */
  readonly goal: number;
  readonly stale: number;
  /** By number of measured jobs. */
  readonly after: ReadonlyMap<number, number>;
}

async function driftOf(setting: Setting): Promise<Drifted> {
  const { request, truth } = setting;
  request.say(`pick: a network card falls to a quarter, seed ${String(request.seed)}`);
  const { seed } = request;
  const { domain } = truth;
  const drifted: Truth = {
    ...truth,
    // From now on it matters which hosts, not only how many GPUs of each.
    samples: [],
    gbs: (candidate) => {
      const gbs = truth.gbs(candidate);
      const isSlow = candidate.length > 1 && candidate.some(({ host }) => host === SLOW_HOST);
      return gbs !== undefined && isSlow ? gbs * LEFT : gbs;
    },
  };
  const random = randomFrom(seed, "drift");
  const sizes = { smallest: 2, largest: request.size("largest"), each: EACH };
  const scenarios = scenariosOf(domain, sizes, random.stream("scenarios"));
  const field = { truth: drifted, scenarios, best: bestGbs(drifted, scenarios) };
  const compact = topo(domain, readLinks());
  const gbeOf = (predictor: BandwidthPredictor): number =>
    figuresOf(judge(field, searching(searchPick, predictor, compact))).gbePercent;
  const stale = await modelFor(setting);
  const fresh = await trainSurrogate({
    domain,
    samples: setsFor(drifted, {
      samples: PAPER_SAMPLES,
      training: "chosen",
      random: random.stream("fresh"),
    }),
    seed,
  });
  const after = new Map<number, number>();
  let model = stale;
  let predictor = openSyncPredictor(model, domain);
  const measured: BandwidthSample[] = [];
  const dispatchAny = randomChoice(random.stream("explored"));
  const most = gpusOf(domain).length;
  for (let job = 0; measured.length < (STEPS.at(-1) ?? 0); job += 1) {
    const own = random.stream(`job ${String(job)}`);
    const gpus = 2 + own.below(most - 1);
    const [scenario] = scenariosOf(domain, { smallest: gpus, largest: gpus, each: 1 }, own);
    if (scenario === undefined) continue;
    const dispatch =
      job % EXPLORED_EVERY === 0 ? dispatchAny : searching(searchPick, predictor, compact);
    const shares = dispatch(scenario);
    const gbs = drifted.gbs(shares);
    if (shares.length < 2 || gbs === undefined) continue;
    measured.push({ shares, gbs });
    if (!STEPS.includes(measured.length)) continue;
    model = await trainSurrogate({ domain, samples: measured, seed, from: stale });
    predictor = openSyncPredictor(model, domain);
    after.set(measured.length, gbeOf(predictor));
  }
  return {
    goal: gbeOf(openSyncPredictor(fresh, domain)),
    stale: gbeOf(openSyncPredictor(stale, domain)),
    after,
  };
}
