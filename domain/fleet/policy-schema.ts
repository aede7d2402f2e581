/** @file The schema of `policy:` in `fleet.yaml`: how the fleet is shared and its GPUs are chosen. */

import { z } from "zod";
import {
  choice,
  duration,
  flag,
  gpuTime,
  positiveNumber,
  share,
  wholeNumber,
} from "../file/schema-leaf.ts";
import { DEFAULT_PLACES, DEFAULT_POLICY, FLEET_PLACEMENTS } from "./fleet.ts";

const MIN_PLACES = 100;
/** A larger limit on preemptions is none. */
const MAX_PER_JOB = 1_000;
/** A reserve of more than half of a fleet is taken for a mistake. */
const MAX_RESERVE_SHARE = 0.5;

const weight = (name: string, usual: number) =>
  positiveNumber({
    max: 1_000_000,
    description: `Weight of ${name} jobs. Default: ${usual}.`,
    examples: [usual],
  }).optional();

export const policySchema = z
  .strictObject({
    weights: z
      .strictObject({
        inference: weight("inference", DEFAULT_POLICY.classWeights.inference),
        interactive: weight("interactive", DEFAULT_POLICY.classWeights.interactive),
        training: weight("training", DEFAULT_POLICY.classWeights.training),
      })
      .meta({ description: "Shares of the classes against each other." })
      .optional(),
    aging: duration({
      description:
        "A waiting job gains one point of priority in this time, so age overtakes any priority. Default: 1m.",
      examples: ["1m"],
    }).optional(),
    preemption: z
      .strictObject({
        enabled: flag("Whether running jobs may be stopped for others. Default: true.").optional(),
        budget: gpuTime({
          description:
            "GPU time of others' work that the jobs of one tenant may cause to be lost in an hour, at most. Default: 10 GPU-hours.",
          examples: ["10 GPU-hours"],
          isZeroAllowed: true,
        }).optional(),
        perJob: wholeNumber({
          min: 1,
          max: MAX_PER_JOB,
          description:
            "How often one job is stopped for others, at most; then it runs on as one that is never stopped for them. Default: no limit.",
          examples: [3],
        }).optional(),
        coolDown: duration({
          description:
            "So long a job that was stopped for another runs before it may be stopped again, if its own minRuntime is not longer. Default: 0s.",
          examples: ["30m"],
          isZeroAllowed: true,
        }).optional(),
      })
      .meta({ description: "Whether, how much, and how often jobs are stopped for others." })
      .optional(),
    reserve: share({
      max: MAX_RESERVE_SHARE,
      description:
        "The largest part of the fleet that is kept free for inference jobs that are to come. Default: 0.03.",
      examples: [0.03],
    }).optional(),
    places: wholeNumber({
      min: MIN_PLACES,
      max: DEFAULT_PLACES,
      description: `How many requests may wait inside the fleet at most; further ones wait in the lobbies of their tenants. Default: ${DEFAULT_PLACES}.`,
      examples: [DEFAULT_PLACES],
    }).optional(),
    placement: choice(FLEET_PLACEMENTS, {
      description:
        "buddy: gangs take the smallest free block of GPUs, hosts or racks, and bandwidths are ignored. Default: the least spread with the best bandwidth.",
      examples: ["buddy"],
    }).optional(),
  })
  .meta({ description: "How the fleet is shared." });
