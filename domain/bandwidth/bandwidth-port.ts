/**
 * @file The collective bandwidth of GPU sets in one cluster: the known measurements, and the port of its predictors.
 *
 * Bandwidth is GB/s of bus bandwidth as nccl-tests prints it. A set is a share per host, so its size in memory follows the hosts that
 * it touches, not those of the cluster. The types are here because the search (scheduling/pick) and the models that it asks
 * (models) must not know each other.
 */

import type { HostId } from "../values/ids.ts";
import type { MessageProfile } from "./message-profile.ts";

/** GPUs of one host in a candidate. */
export interface PickShare {
  /** Index in the domain's host list. */
  readonly host: number;
  /** Bit i set = GPU i; never 0. */
  readonly mask: number;
}

/** A set of GPUs that a gang could get: its shares, ascending by host, none empty. */
export type Candidate = readonly PickShare[];

/** The known facts of a bandwidth domain (one cluster); hosts are in the order of the fleet file. */
export interface BandwidthDomain {
  readonly hosts: readonly BandwidthHost[];
  /** Measured GB/s of a mask inside one host; undefined where not measured. One GPU sets no limit: Infinity. */
  readonly intraGbs: (host: number, mask: number) => number | undefined;
}

export interface BandwidthHost {
  readonly id: HostId;
  readonly gpuCount: number;
  readonly gpuType: string;
  readonly rack?: string;
}

/**
 * B̂ of BandPilot. Synchronous, because a decision is one synchronous call. Pure for one version: a candidate's answer does not
 * depend on the rest of the batch.
 */
export interface BandwidthPredictor {
  readonly version: string;
  readonly domain: BandwidthDomain;
  /**
   * Shares of equal kinds are interchangeable: they have the same features, and nothing else enters the answer except the clamp. A search
   * over hundreds of hosts then counts kinds, and a model may merge equal shares, since attention with multiplicities gives the same answer.
   * Absent: no two shares are alike.
   */
  readonly kindOf?: (share: PickShare) => string | number;
  /**
   * What a host was seen to give of what a sound one gives, 0 to 1, where hosts of one kind differ in that; then racks may matter too, and
   * shares of equal kinds are not interchangeable, though they cost a search no more. Absent: no such difference is known.
   */
  readonly strengthOf?: (host: number) => number;
  /** With strengths: what the way out of a host's rack is expected to leave of a gang's bandwidth, 0 to 1; absent: all racks are alike. */
  readonly wayOutOf?: (host: number) => number;
  /** No answer is above the intra-host bandwidth of the slowest member host, so a search may prune by it. */
  readonly isClamped?: boolean;
  /** GB/s of each candidate, in order. */
  predict(candidates: readonly Candidate[]): readonly number[];
  /** A cautious bandwidth on which a pick may rely; absent: the prediction itself. */
  readonly appraise?: (candidates: readonly Candidate[]) => readonly Appraised[];
  /** The same model for other messages, which has answers of its own; absent: it knows one kind of messages only. */
  readonly at?: (messages: MessageProfile) => BandwidthPredictor;
}

export interface Appraised {
  readonly predictedGbs: number;
  /** At most the prediction, and below it where nothing similar to the candidate was measured. */
  readonly countedGbs: number;
}

/** One measured candidate. */
export interface BandwidthSample {
  readonly shares: Candidate;
  readonly gbs: number;
  /** `USUAL_MESSAGES` when absent. */
  readonly messages?: MessageProfile;
}
