/**
 * @file Trains the Transformer's parameters on tokenised samples: a fixed number of steps, so the same request gives the same bits.
 *
 * Small batches drawn by shuffled rounds through the samples; the learning rate rises over the first steps and then falls in a line
 * to a twentieth; what is returned is the mean of the parameters over the last part of the steps, which is steadier than the
 * last of them. Cost: about 5 ms a step at 32 samples of 4 hosts on one thread.
 */

import { randomFrom, shuffled, type Random } from "../../lib/random.ts";
import { batchOf } from "./batch.ts";
import type { Token } from "./features.ts";
import { batchFeeds, openSession, outputOf, scalarFeed, vectorFeed } from "./runtime.ts";
import { adamCorrections, trainingGraph } from "./surrogate-graphs.ts";
import { freshParameters, transformerShape } from "./transformer.ts";

export interface TrainingTask {
  readonly featureCount: number;
  readonly samples: readonly TrainingSample[];
  readonly seed: number;
  readonly steps: number;
  /** Highest learning rate. */
  readonly rate: number;
  /** Decoupled weight decay, a share of the rate. */
  readonly decay: number;
  /** Samples a step; 32 when absent. */
  readonly batch?: number;
  /** Parameters to go on from; fresh ones when absent. */
  readonly from?: Float32Array;
}

interface TrainingSample {
  readonly tokens: readonly Token[];
  /** Standardised logarithm of the bandwidth. */
  readonly target: number;
  /** The same of the slowest member host: a higher answer is cut to it before it is held against the target. */
  readonly limit: number;
  readonly weight: number;
}

const BATCH = 32;
const WARM_UP_STEPS = 20;
/** The rate at the end, as a share of the highest. */
const LAST_RATE = 0.05;
/** The share of the steps that the mean of the parameters leaves out. */
const UNAVERAGED = 0.6;

export async function trainParameters(task: TrainingTask): Promise<Float32Array> {
  const { samples, steps, featureCount } = task;
  if (samples.length === 0) throw new RangeError("there are no samples to train on");
  const shape = transformerShape(featureCount);
  const random = randomFrom(task.seed, "bandwidth-surrogate");
  const session = await openSession(trainingGraph(shape));
  let parameters = task.from ?? freshParameters(shape, random.stream("start"));
  let first: Float32Array = new Float32Array(parameters.length);
  let second: Float32Array = new Float32Array(parameters.length);
  let average = parameters;
  const nextSample = rounds(samples, random.stream("batches"));
  const size = Math.min(task.batch ?? BATCH, samples.length);
  const averagedFrom = Math.floor(steps * UNAVERAGED);
  for (let step = 1; step <= steps; step += 1) {
    const batch = Array.from({ length: size }, nextSample);
    const total = batch.reduce((sum, { weight }) => sum + weight, 0);
    const rising = Math.min(1, step / WARM_UP_STEPS);
    const falling = 1 - (1 - LAST_RATE) * (step / steps);
    const corrections = adamCorrections(step);
    const tokens = batch.map((sample) => sample.tokens);
    const next = await session.run({
      ...batchFeeds(batchOf(tokens, featureCount), featureCount),
      target: vectorFeed(Float32Array.from(batch, ({ target }) => target)),
      limit: vectorFeed(Float32Array.from(batch, ({ limit }) => limit)),
      weight: vectorFeed(Float32Array.from(batch, ({ weight }) => weight / total)),
      parameters: vectorFeed(parameters),
      first: vectorFeed(first),
      second: vectorFeed(second),
      average: vectorFeed(average),
      rate: scalarFeed(task.rate * rising * falling),
      decay: scalarFeed(task.decay),
      first_correction: scalarFeed(corrections.first),
      second_correction: scalarFeed(corrections.second),
      averaging: scalarFeed(step <= averagedFrom ? 1 : 1 / (step - averagedFrom)),
    });
    parameters = outputOf(next, "next_parameters");
    first = outputOf(next, "next_first");
    second = outputOf(next, "next_second");
    average = outputOf(next, "next_average");
  }
  await session.release();
  return average;
}

/** All samples in random order, then all again in another. */
function rounds<Item>(items: readonly Item[], random: Random): () => Item {
  let order: Item[] = [];
  return () => {
    if (order.length === 0) order = shuffled(items, random);
    const item = order.pop();
    if (item === undefined) throw new RangeError("there is nothing to draw from");
    return item;
  };
}
