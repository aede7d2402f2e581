/**
 * @file What it brings to look at neighbours: jobs that share network cards, picked with and without them in the score.
 *
 * Jobs of 2 to 16 GPUs come one after the other to the measured cluster; each runs until so many later ones have come or its GPUs are needed:
 * then the oldest end. After each arrival the rates of all that run are summed, by the true bandwidths and the sharing model of
 * pick/sharing.ts (a card carries the most that two whole hosts reach through it); the total is the sum over all arrivals. Both ways
 * see the same jobs and the same model of bandwidth.
 */

import { popCount } from "../../domain/lease.ts";
import { randomFrom } from "../../lib/random.ts";
import { openSyncPredictor } from "../../models/surrogate.ts";
import { searchPick } from "../../scheduling/pick/search-pick.ts";
import {
  cardCapacities,
  ratesOf,
  scoreAmong,
  type Neighbour,
} from "../../scheduling/pick/sharing.ts";
import type { BandwidthPredictor, Candidate } from "../../domain/bandwidth-port.ts";
import { atLeast, barOf, REPORTED, type Bar } from "../bar.ts";
import { PAPER_SAMPLES } from "./compare.ts";
import { truthPredictor } from "./protocol.ts";
import { PRODUCT_WAY } from "./training-sets.ts";
import type { Setting } from "./speed.ts";
import type { Truth } from "./truth.ts";

const LARGEST = 16;
/** Arrivals that a job stays for. */
const STAY = 6;

export async function measureNeighbours(setting: Setting): Promise<readonly Bar[]> {
  const { request, truth, trainings } = setting;
  request.say("pick: jobs that share network cards");
  const { domain } = truth;
  const totals = { among: 0, alone: 0 };
  for (let at = 0; at < request.size("seeds"); at += 1) {
    const seed = request.seed + at;
    const wish = { samples: PAPER_SAMPLES, seed, training: PRODUCT_WAY };
    const { model } = await trainings(truth, wish);
    const predictor = openSyncPredictor(model, domain, { version: "ours" });
    const random = randomFrom(seed, "neighbours");
    const sizes = Array.from({ length: request.size("jobs") }, () => 2 + random.below(LARGEST - 1));
    totals.among += totalRate(truth, { predictor, sizes, looks: true });
    totals.alone += totalRate(truth, { predictor, sizes, looks: false });
  }
  return [
    barOf({
      id: "total with neighbours in the score",
      unit: "× without",
      wish: atLeast(1),
      got: totals.among / totals.alone,
      note: `gain ${(100 * (totals.among / totals.alone - 1)).toFixed(2)} % of the measured bandwidth of ${String(request.size("jobs"))} jobs, summed over ${String(request.size("seeds"))} seeds`,
    }),
    barOf({ id: "total without", unit: "GB/s", wish: REPORTED, got: totals.alone }),
  ];
}

interface Stream {
  readonly predictor: BandwidthPredictor;
  readonly sizes: readonly number[];
  /** Whether the score counts neighbours. */
  readonly looks: boolean;
}

interface Running {
  readonly pick: Candidate;
  readonly predictedGbs: number;
  readonly gbs: number;
}

function totalRate(truth: Truth, { predictor, sizes, looks }: Stream): number {
  const { hosts } = truth.domain;
  const trueCards = cardCapacities(truthPredictor(truth));
  let running: readonly Running[] = [];
  let total = 0;
  for (const gpus of sizes) {
    running = running.slice(Math.max(0, running.length - STAY + 1));
    while (freeOf(truth, running).reduce((sum, mask) => sum + popCount(mask), 0) < gpus)
      running = running.slice(1);
    const neighbours = running.map(({ pick, predictedGbs }): Neighbour => ({
      shares: pick,
      gbs: predictedGbs,
    }));
    const found = searchPick({
      predictor,
      gpus,
      freeMasks: freeOf(truth, running),
      ...(looks && { score: scoreAmong({ neighbours, capacityOf: cardCapacities(predictor) }) }),
    });
    if (found === undefined)
      throw new Error(`no pick of ${String(gpus)} GPUs on ${String(hosts.length)} hosts`);
    const { pick, predictedGbs } = found;
    running = [...running, { pick, predictedGbs, gbs: truth.gbs(pick) ?? 0 }];
    const rates = ratesOf({
      neighbours: running.map((job) => ({ shares: job.pick, gbs: job.gbs })),
      capacityOf: trueCards,
    });
    total += rates.reduce((sum, rate) => sum + rate, 0);
  }
  return total;
}

function freeOf({ domain }: Truth, running: readonly Running[]): readonly number[] {
  const masks = domain.hosts.map(({ gpuCount }) => 2 ** gpuCount - 1);
  for (const { pick } of running)
    for (const { host, mask } of pick) masks[host] = (masks[host] ?? 0) & ~mask;
  return masks;
}
