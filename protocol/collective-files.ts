/**
 * @file What a tuned run finds beside it and in its environment, and how its tuner is asked: names that provider and agent share.
 */

import type { PublishedPolicy, TopologyClass } from "../domain/bandwidth/collective-evidence.ts";
import type { RewardReport } from "./messages.ts";

export const POLICY_FILE = "collectives.policy";
export const REWARDS_FILE = "collectives.rewards";
/** Says which tuner the agent reports to. */
export const ORDER_FILE = "collectives.json";

export const POLICY_VARIABLE = "ORBWEAVER_COLLECTIVES_POLICY";
export const SEAL_VARIABLE = "ORBWEAVER_COLLECTIVES_SEALED";
export const REWARDS_VARIABLE = "ORBWEAVER_COLLECTIVES_REWARDS";

export interface CollectiveOrder {
  readonly fleet: string;
  readonly topology: TopologyClass;
  readonly hasOverlap: boolean;
}

/** `Signal`: an `AbortSignal`, which the pure rooms do not know. */
export type AskTuner<Signal> = (
  order: CollectiveOrder,
  report: Pick<RewardReport, "run" | "rewards">,
  signal?: Signal,
) => Promise<PublishedPolicy>;
