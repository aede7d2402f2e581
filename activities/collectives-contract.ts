/** @file What the tuner of a kind of communicator asks of a worker. Types only. */

import type {
  OverlapEvidence,
  PublishedPolicy,
  TopologyClass,
} from "../domain/collective-evidence.ts";

export interface CollectiveActivities {
  /** The policy that the evidence leads to; the one that it already has, version and all, when that is still right. */
  tunePolicy(order: TuneOrder): Promise<PublishedPolicy>;
}

export interface TuneOrder {
  readonly topology: TopologyClass;
  readonly evidence: OverlapEvidence;
  /** Of a new policy. */
  readonly version: number;
}
