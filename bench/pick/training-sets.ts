/**
 * @file The sets on which the models of the bench are trained and tested.
 *
 *   mixed    what `orbweaver fleet measure` measures (models/measuring/measuring-sets.ts): some of the next two in turn.
 *   planned  what lowers the variance over everything most (models/measuring/measuring-plan.ts).
 *   chosen   those that a pick would hesitate about (models/measuring/training-sets.ts).
 *   drawn    the paper's: any. Of the measured cluster so many of its multisets, of a mixed one any GPUs.
 * All look at the configurations only, never at a value. Of any GPUs of a mixed cluster nearly all hold a host so slow inside that
 * its table explains the whole, so they teach nothing about the network between the others, whatever the model: the choice of the sets,
 * not the network, carries the mixed clusters. Of the measured cluster a set is a multiset of counts, with the GPUs as in the file.
 */

import type { BandwidthSample, Candidate } from "../../domain/bandwidth/bandwidth-port.ts";
import { randomFrom, type Random } from "../../lib/random.ts";
import { measuringSets } from "../../models/measuring/measuring-sets.ts";
import { planBetween } from "../../models/measuring/measuring-plan.ts";
import { trainingSets } from "../../models/measuring/training-sets.ts";
import { countsKey, type Truth } from "./truth.ts";

export const TRAINING_WAYS = ["mixed", "planned", "chosen", "drawn"] as const;
export type TrainingWay = (typeof TRAINING_WAYS)[number];

/** The bars are about the product's own way. */
export const PRODUCT_WAY: TrainingWay = "mixed";

export interface Split {
  readonly samples: number;
  readonly seed: number;
  readonly training: TrainingWay;
}

/** Of a mixed cluster's test sets against its training sets, as the paper has it. */
const TEST_FOLD = 5;

/** Tests are the other multisets of a measured cluster, five times as many sets as the training has of a mixed one; never the same set. */
export function splitOf(
  truth: Truth,
  { samples, seed, training }: Split,
): { readonly train: readonly BandwidthSample[]; readonly test: readonly BandwidthSample[] } {
  const random = randomFrom(seed, `${truth.name}/training`);
  const count = isMeasured(truth) ? Infinity : (1 + TEST_FOLD) * samples;
  const drawn = truth.draw(count, random.stream("sets"));
  if (training === "drawn") return { train: drawn.slice(0, samples), test: drawn.slice(samples) };
  const train = setsFor(truth, { samples, training, random: random.stream(training) });
  const name = nameIn(truth);
  const known = new Set(train.map(({ shares }) => name(shares)));
  const others = isMeasured(truth) ? drawn : drawn.slice(samples);
  return { train, test: others.filter(({ shares }) => !known.has(name(shares))) };
}

interface Wanted {
  readonly samples: number;
  readonly training: Exclude<TrainingWay, "drawn">;
  readonly random: Random;
}

export function setsFor(truth: Truth, { samples, training, random }: Wanted): BandwidthSample[] {
  const { domain } = truth;
  const nameOf = nameIn(truth);
  const isOpen = (candidate: Candidate): boolean => truth.gbs(candidate) !== undefined;
  const need = { count: samples, measured: [], random, nameOf };
  const sets = {
    mixed: () => measuringSets(domain, need),
    planned: () => planBetween(domain, need).picks,
    chosen: () => trainingSets(domain, { ...need, isOpen }),
  }[training]();
  const asMeasured = new Map(truth.samples.map(({ shares }) => [countsKey(shares), shares]));
  return sets.flatMap((set) => {
    const shares = asMeasured.get(countsKey(set)) ?? set;
    const gbs = truth.gbs(shares);
    return gbs === undefined ? [] : [{ shares, gbs }];
  });
}

const isMeasured = ({ samples }: Truth): boolean => samples.length > 0;

const nameIn = (truth: Truth): ((candidate: Candidate) => string) =>
  isMeasured(truth) ? countsKey : (candidate) => JSON.stringify(candidate);
