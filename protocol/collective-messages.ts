/** @file The words between who runs collectives, the tuner of a kind of communicator, and who looks after it. */

import { defineQuery, defineUpdate } from "@temporalio/workflow";
import type {
  CollectiveReward,
  CollectiveRow,
  OverlapEvidence,
  PublishedPolicy,
  TopologyClass,
} from "../domain/bandwidth/collective-evidence.ts";
import type { Proven } from "./word-proof.ts";

export const COLLECTIVE_TUNER_WORKFLOW = "collective-tuner";
/** Begins the ids of all tuners of a fleet. */
export const collectiveTunerPrefix = (fleet: string): string => `orbweaver-collectives-${fleet}-`;
export const collectiveTunerWorkflowId = (
  fleet: string,
  { cluster, name }: Pick<TopologyClass, "cluster" | "name">,
): string => `${collectiveTunerPrefix(fleet)}${cluster}-${name}`;

/** The version of the workflow's logic that new runs follow. */
export const COLLECTIVE_TUNER_RULES = 2;

/** What a host heard from one run of a job, and the question which policy is right by now. */
export interface RewardReport {
  readonly hasOverlap: boolean;
  /** The run: steps are counted in it, and what was heard of it is not heard again. */
  readonly run: string;
  readonly rewards: readonly CollectiveReward[];
}
export const MAX_REPORTED_REWARDS = 500;

/** Takes rewards in and answers with the policy that they lead to. Without rewards: with the policy there is, made if need be. */
export const reportRewardsUpdate = defineUpdate<PublishedPolicy, Proven<RewardReport>>(
  "report-rewards",
);

/** Forgets what was measured; everything is tried again under a higher version. */
export const resetCollectivesUpdate = defineUpdate<CollectiveTunerView, Proven<null>>("reset");

export interface CollectiveTunerView {
  readonly fleet: string;
  readonly topology: TopologyClass;
  readonly worlds: readonly OverlapView[];
  /** Rewards taken in, heard again, and such as say nothing: of no arm, or impossible. */
  readonly heard: number;
  readonly repeated: number;
  readonly unfit: number;
}
export interface OverlapView {
  readonly hasOverlap: boolean;
  readonly policy: PublishedPolicy;
  readonly rows: readonly (CollectiveRow & { readonly calls: number; readonly samples: number })[];
}
export const collectiveTunerQuery = defineQuery<CollectiveTunerView>("collectives");

export interface CollectiveTunerInput {
  readonly fleet: string;
  readonly topology: TopologyClass;
  /** The version of the workflow's logic that this run follows; 1 when absent. */
  readonly rules?: number;
  /** Carried over continue-as-new. */
  readonly memory?: CollectiveMemory;
}

/** What a tuner remembers; see collective-memory.ts, which alone changes it. */
export interface CollectiveMemory {
  readonly worlds: readonly OverlapEvidence[];
  /** Pairs: a run and its highest step that was heard; the oldest goes first. */
  readonly runs: readonly (readonly [run: string, step: number])[];
  /** The highest version that was ever published, a reset included. */
  readonly version: number;
  readonly heard: number;
  readonly repeated: number;
  readonly unfit: number;
}
