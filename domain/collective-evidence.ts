/**
 * @file What is known of collectives: kinds of communicators, rewards that jobs report, and what is kept of them.
 *
 * Arms and collectives are words here (`tree/simple`, `allreduce`): which of them there are is the science's affair
 * (`scheduling/collectives/`), and a word of a later version must not break what an earlier one has stored.
 */

/** Placements whose collectives behave alike. */
export interface TopologyClass {
  /** Where the GPUs are; clusters of a gang over several are joined by `+`. */
  readonly cluster: string;
  /** Shape and hardware, e.g. `2x4-A100-nvlink`. */
  readonly name: string;
  readonly nodes: number;
  readonly ranks: number;
  /** NVLink between all GPUs that the gang has on a host, on each host. */
  readonly hasNvlink: boolean;
  /** NVSwitch that reduces. */
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

/** What one step of a job took, with the arm that all calls of a row had in it. */
export interface CollectiveReward extends CollectiveRow {
  /** Counted by the process that writes. */
  readonly step: number;
  /** Of the policy that was in force. */
  readonly version: number;
  /** `mixed`: the calls of the step were not all under one. */
  readonly arm: string;
  readonly calls: number;
  readonly micros: number;
}

export interface RewardSample {
  readonly arm: string;
  readonly micros: number;
  readonly version: number;
  /** Tells runs apart, as far as 32 bits do: times of different jobs are not compared as they are. */
  readonly run: number;
}

/** What is kept of a row since the ground last shifted, in order of arrival: the first that explored, and the latest. */
export interface RowEvidence extends CollectiveRow {
  /** Calls in a step of the run that was heard last: the most that it had, where steps differ. */
  readonly calls: number;
  readonly run: number;
  readonly samples: readonly RewardSample[];
}

/** Steps that compute while they communicate are another world than those that do not. */
export interface OverlapEvidence {
  readonly hasOverlap: boolean;
  readonly rows: readonly RowEvidence[];
  /** The policy that was published last; its version is 0 before there was one. */
  readonly policy: PublishedPolicy;
}

export interface PublishedPolicy {
  readonly version: number;
  /** As docs/collectives-format.md has it; empty for version 0. */
  readonly text: string;
  /** Why each row is as it is. */
  readonly reasons: readonly RowReason[];
  readonly isExploring: boolean;
}

export interface RowReason extends CollectiveRow {
  readonly arm: string;
  /** It goes through a schedule first. */
  readonly isExploring: boolean;
  /** One line for people. */
  readonly why: string;
  /** Typical time of a step under each arm that was tried. */
  readonly arms: readonly {
    readonly arm: string;
    readonly samples: number;
    readonly typicalMicros: number;
  }[];
}

export const NO_POLICY: PublishedPolicy = Object.freeze({
  version: 0,
  text: "",
  reasons: [],
  isExploring: false,
});
