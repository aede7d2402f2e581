/**
 * @file What a tuned run finds beside it and in its environment, and how its tuner is asked: names that provider and agent share.
 */

import type { PublishedPolicy, TopologyClass } from "../domain/bandwidth/collective-evidence.ts";
import { isFields } from "../lib/fields.ts";
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

/** Undefined for what is none. */
export function readCollectiveOrder(value: unknown): CollectiveOrder | undefined {
  if (!isFields(value)) return undefined;
  const { fleet, topology, hasOverlap } = value;
  if (typeof fleet !== "string" || typeof hasOverlap !== "boolean" || !isFields(topology))
    return undefined;
  const { cluster, name, nodes, ranks, hasNvlink, hasNvlinkSharp } = topology;
  const isTopology =
    typeof cluster === "string" &&
    typeof name === "string" &&
    isCount(nodes) &&
    isCount(ranks) &&
    typeof hasNvlink === "boolean" &&
    typeof hasNvlinkSharp === "boolean";
  return isTopology
    ? { fleet, topology: { cluster, name, nodes, ranks, hasNvlink, hasNvlinkSharp }, hasOverlap }
    : undefined;
}

const isCount = (value: unknown): value is number => Number.isSafeInteger(value);

/** `Signal`: an `AbortSignal`, which the pure rooms do not know. */
export type AskTuner<Signal> = (
  order: CollectiveOrder,
  report: Pick<RewardReport, "run" | "rewards">,
  signal?: Signal,
) => Promise<PublishedPolicy>;
