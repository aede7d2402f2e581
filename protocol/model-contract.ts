/** @file What the bandwidth model of a cluster asks of a solver worker. Types only; every activity is idempotent by its order. */

import type { MessageProfile } from "../domain/bandwidth/message-profile.ts";
import type { HostGpus } from "../domain/lease/lease.ts";
import type { ModelManifest } from "../domain/model/model-manifest.ts";
import type { ServingVersion } from "./model-messages.ts";

export interface ModelActivities {
  /** Which version serves according to the registry; null when none does. */
  servingModel(place: ModelPlace): Promise<ServingVersion | null>;
  /** What a version says of samples; null for those that it cannot judge. */
  evaluationSamples(order: EvaluationOrder): Promise<EvaluationReport>;
  /** Trains, holds the result against the version that serves, and writes it down; it does not serve yet. */
  trainModel(order: TrainOrder): Promise<TrainReport>;
  /** From when this returns the version serves, crash or not. Fails for one whose gate does not hold. */
  publishModel(order: PublishOrder): Promise<ServingVersion>;
}

export interface ModelPlace {
  readonly fleet: string;
  readonly cluster: string;
}

export interface OrderedSample {
  readonly gpus: readonly HostGpus[];
  readonly gbs: number;
  /** `USUAL_MESSAGES` when absent. */
  readonly messages?: MessageProfile;
  /** Counts a tenth in training, and not at all in the gate. */
  readonly isStale?: true;
}

export interface EvaluationOrder extends ModelPlace {
  readonly version: string;
  readonly samples: readonly OrderedSample[];
}

export type EvaluationReport =
  | { readonly kind: "evaluated"; readonly predictedGbs: readonly (number | null)[] }
  /** The version cannot be used on the cluster as it is now. */
  | { readonly kind: "unusable"; readonly reason: string };

export interface TrainOrder extends ModelPlace {
  /** Names the training: done again, it gives the version that it gave before. */
  readonly order: string;
  readonly samples: readonly OrderedSample[];
  /** Fine-tunes from this version; from nothing when absent. */
  readonly from?: string;
  /** The version that it is held against; absent when none serves. */
  readonly serving?: string;
  readonly seed: number;
}

export type TrainReport =
  | {
      readonly kind: "trained";
      readonly version: string;
      readonly gate: ModelManifest["gate"];
    }
  /** Nothing was trained, for too few measurements or without the package that trains; the next try waits for more of them. */
  | { readonly kind: "too-few"; readonly reason: string };

export interface PublishOrder extends ModelPlace {
  readonly order: string;
  /** The last one that served before when absent. */
  readonly version?: string;
}
