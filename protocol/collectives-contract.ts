/** @file What the tuner of a kind of communicator asks of a worker. Types only. */

import type {
  CollectiveRow,
  OverlapEvidence,
  PublishedPolicy,
  TopologyClass,
} from "../domain/bandwidth/collective-evidence.ts";

export interface CollectiveActivities {
  /** The policy that the evidence leads to; the one that it already has, version and all, when that is still right. */
  tunePolicy(order: TuneOrder): Promise<TuneAnswer>;
}

export interface TuneOrder {
  readonly topology: TopologyClass;
  readonly evidence: OverlapEvidence;
  /** Of a new policy. */
  readonly version: number;
}

export interface TuneAnswer {
  readonly policy: PublishedPolicy;
  /** Rows under which the ground has shifted: so many of their first samples do not count any more. */
  readonly stale: readonly (CollectiveRow & { readonly samples: number })[];
}
