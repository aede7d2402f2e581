/**
 * @file The models of a run of the bench, each trained once however many parts ask for it.
 *
 * A model is identified by its cluster, its training sets, its seed and whether it is asked with the clamp. What its training cost is measured
 * at the first asking: processor time, because the machine may be shared, with wall time beside it.
 */

import type { BandwidthSample } from "../../domain/bandwidth/bandwidth-port.ts";
import { trainSurrogate, type TrainedSurrogate } from "../../models/bandwidth/surrogate.ts";
import { splitOf, type Split } from "./training-sets.ts";
import type { Truth } from "./truth.ts";

export interface Trained {
  readonly train: readonly BandwidthSample[];
  readonly test: readonly BandwidthSample[];
  readonly model: TrainedSurrogate;
  readonly took: Took;
}

export interface Took {
  readonly cpuMs: number;
  readonly wallMs: number;
}

interface ModelSettings extends Split {
  /** Trained and asked without the clamp. */
  readonly isBare?: boolean;
}

export type Trainings = (truth: Truth, target: ModelSettings) => Promise<Trained>;

export function openTrainings(): Trainings {
  const known = new Map<string, Promise<Trained>>();
  return (truth, target) => {
    const { samples, seed, training, isBare = false } = target;
    const key = [truth.name, samples, seed, training, isBare].join();
    const found = known.get(key) ?? trained(truth, target);
    known.set(key, found);
    return found;
  };
}

async function trained(
  truth: Truth,
  { isBare = false, ...split }: ModelSettings,
): Promise<Trained> {
  const { train, test } = splitOf(truth, split);
  const { domain } = truth;
  const { result: model, ...took } = await timed(() =>
    trainSurrogate({ domain, samples: train, seed: split.seed, clamp: !isBare }),
  );
  return { train, test, model, took };
}

/** Of the whole process. */
export async function timed<Result>(
  work: () => Promise<Result>,
): Promise<Took & { readonly result: Result }> {
  const cpu = process.cpuUsage();
  const startMs = performance.now();
  const result = await work();
  const { user, system } = process.cpuUsage(cpu);
  return { result, cpuMs: (user + system) / 1_000, wallMs: performance.now() - startMs };
}
