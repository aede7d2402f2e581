/**
 * @file The evidence about collectives: kinds of communicators, rewards that jobs report, and the part of them that is kept.
 *
 * Arms and collectives are plain text here (`tree/simple`, `allreduce`). `tuning/` knows the valid names; a name from a later version must
 * not break the data that an earlier one has stored.
 */

import type { HostId } from "../values/ids.ts";

/** Placements whose collectives behave alike. */
export interface TopologyClass {
  /** The cluster of the GPUs; a gang over several clusters joins their names by `+`. */
  readonly cluster: string;
  /** Shape and hardware, e.g. `2x4-A100-nvlink`. */
  readonly name: string;
  readonly nodes: number;
  readonly ranks: number;
  /** NVLink between all GPUs that the gang has on a host, on each host. */
  readonly hasNvlink: boolean;
  /** The NVSwitch can reduce in the network. */
  readonly hasNvlinkSharp: boolean;
}

/** Calls of one collective whose sizes are in one band; as a row of a policy names them. */
export interface CollectiveRow {
  readonly collective: string;
  readonly minBytes: number;
  readonly maxBytes: number;
}

export const isSameRow =
  (key: CollectiveRow) =>
  (row: CollectiveRow): boolean =>
    row.collective === key.collective &&
    row.minBytes === key.minBytes &&
    row.maxBytes === key.maxBytes;

/** What NCCL has loaded of the plugin: tuner and profiler, the tuner alone, or nothing, so that it keeps its own choices. */
export const NCCL_PLUGINS = ["both", "tuner", "none"] as const;
export type NcclPlugins = (typeof NCCL_PLUGINS)[number];
export const isNcclPlugins = (value: unknown): value is NcclPlugins =>
  NCCL_PLUGINS.some((each) => each === value);

export interface HostPlugins {
  readonly host: HostId;
  readonly plugins: NcclPlugins;
}

/** The time of one step of a job, and for each row the arm that all its calls had. */
export interface CollectiveReward extends CollectiveRow {
  /** Counted by the writing process. */
  readonly step: number;
  /** Of the policy that was in force. */
  readonly version: number;
  /** `mixed`: the calls of the step were not all under one. */
  readonly arm: string;
  readonly calls: number;
  readonly micros: number;
  /** What the row's collectives alone took, on the slowest rank; absent where some rank's NCCL did not tell. */
  readonly slowestMicros?: number;
}

export interface RewardSample {
  readonly arm: string;
  /** Of the step. */
  readonly micros: number;
  /** Of the row's collectives; absent when unknown. */
  readonly slowestMicros?: number;
  readonly version: number;
  /** Identifies the run, as far as 32 bits can: raw times of different jobs are not compared. */
  readonly run: number;
}

/** The kept samples of a row since its performance last shifted, in order of arrival: the first that explored, and the latest. */
export interface RowEvidence extends CollectiveRow {
  /** Calls in a step of the run that reported last; the largest number where steps differ. */
  readonly calls: number;
  readonly run: number;
  readonly samples: readonly RewardSample[];
}

/** Steps that overlap computation with communication are kept apart from steps that do not. */
export interface OverlapEvidence {
  readonly hasOverlap: boolean;
  readonly rows: readonly RowEvidence[];
  /** The policy that was published last; version 0 before the first. */
  readonly policy: PublishedPolicy;
}

export interface PublishedPolicy {
  readonly version: number;
  /** In the format of docs/collectives-format.md; empty for version 0. */
  readonly text: string;
  /** The reason for each row. */
  readonly reasons: readonly RowReason[];
  readonly isExploring: boolean;
}

export interface RowReason extends CollectiveRow {
  readonly arm: string;
  /** The row goes through a schedule of arms first. */
  readonly isExploring: boolean;
  /** One line for people. */
  readonly why: string;
  /** Typical time of a step under each arm that was tried. */
  readonly arms: readonly {
    readonly arm: string;
    readonly samples: number;
    readonly typicalMicros: number;
    /** Typical time of the row's collectives in a step; absent when unknown. */
    readonly slowestMicros?: number;
  }[];
}

export const NO_POLICY: PublishedPolicy = Object.freeze({
  version: 0,
  text: "",
  reasons: [],
  isExploring: false,
});
