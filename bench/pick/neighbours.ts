/**
 * @file The gain from scoring neighbours: jobs that share network cards, picked with and without them in the score.
 *
 * Jobs of 2 to 16 GPUs come one after the other to the measured cluster; each runs until so many later ones have come or its GPUs are needed:
 * then the oldest end. After each arrival the rates of all that run are summed, by the true bandwidths and the sharing model of
 * pick/sharing.ts (a card carries the most that two whole hosts reach through it); the total is the sum over all arrivals. Both ways
 * see the same jobs and the same model of bandwidth.
 */

import { popCount } from "../../domain/lease/lease.ts";
import { randomFrom } from "../../lib/random.ts";
import { openSyncPredictor } from "../../models/bandwidth/surrogate.ts";
import { searchPick } from "../../scheduling/pick/search-pick.ts";
import {
  cardCapacities,
  KEPT_SHARE,
  ratesOf,
  scoreAmong,
  type Neighbour,
} from "../../scheduling/pick/sharing.ts";
import type { BandwidthPredictor, Candidate } from "../../domain/bandwidth/bandwidth-port.ts";
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
  const totals = { none: 0, present: 0, all: 0 };
  const gains: number[] = [];
  for (let at = 0; at < request.size("seeds"); at += 1) {
    const seed = request.seed + at;
    const target = { samples: PAPER_SAMPLES, seed, training: PRODUCT_WAY };
    const { model } = await trainings(truth, target);
    const predictor = openSyncPredictor(model, domain, { version: "ours" });
    const random = randomFrom(seed, "neighbours");
    const sizes = Array.from({ length: request.size("jobs") }, () => 2 + random.below(LARGEST - 1));
    const none = totalRate(truth, { predictor, sizes, looks: "none" });
    const all = totalRate(truth, { predictor, sizes, looks: "all" });
    totals.none += none;
    totals.all += all;
    totals.present += totalRate(truth, { predictor, sizes, looks: "present" });
    gains.push(gainPercent(all, none));
  }
  const own = gains.map((gain) => gain.toFixed(1)).join(", ");
  return [
    barOf({
      id: "total with neighbours in the score",
      unit: "× without",
      target: atLeast(1),
      got: totals.all / totals.none,
      note: `gain ${gainPercent(totals.all, totals.none).toFixed(2)} % of the measured bandwidth of ${String(request.size("jobs"))} jobs, by seed ${own}`,
    }),
    barOf({
      id: "total with present neighbours only",
      unit: "× without",
      target: REPORTED,
      got: totals.present / totals.none,
    }),
    barOf({ id: "total without", unit: "GB/s", target: REPORTED, got: totals.none }),
  ];
}

const gainPercent = (total: number, without: number): number => 100 * (total / without - 1);

/** Which neighbours the score counts: none, those that run, and the one to come as well. */
type Looks = "none" | "present" | "all";

interface Stream {
  readonly predictor: BandwidthPredictor;
  readonly sizes: readonly number[];
  readonly looks: Looks;
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
    const freeMasks = freeOf(truth, running);
    const score = scoreOf(looks, { neighbours, predictor, freeMasks });
    const found = searchPick({
      predictor,
      gpus,
      freeMasks,
      ...(score !== undefined && { score, leastShare: KEPT_SHARE }),
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

interface CycleView {
  readonly neighbours: readonly Neighbour[];
  readonly predictor: BandwidthPredictor;
  readonly freeMasks: readonly number[];
}

/** As scheduling/admission/search-ground.ts has it: a card that no gang uses has no neighbours. */
function scoreOf(
  looks: Looks,
  { neighbours, predictor, freeMasks }: CycleView,
): ReturnType<typeof scoreAmong> | undefined {
  const onCards = neighbours.filter(({ shares }) => shares.length > 1);
  if (looks === "none" || onCards.length === 0) return undefined;
  const street = { neighbours: onCards, capacityOf: cardCapacities(predictor) };
  if (looks === "present") return scoreAmong(street);
  return scoreAmong(street, { domain: predictor.domain, freeMasks });
}

function freeOf({ domain }: Truth, running: readonly Running[]): readonly number[] {
  const masks = domain.hosts.map(({ gpuCount }) => 2 ** gpuCount - 1);
  for (const { pick } of running)
    for (const { host, mask } of pick) masks[host] = (masks[host] ?? 0) & ~mask;
  return masks;
}
