/**
 * @file Where a served model of a launch finds and leaves its weights on this host: a folder of its tenant, and how much one model may take there.
 *
 * What a launch writes into memory counts as its own until it ends, so a model takes a quarter of the launch's limit at most. Nothing is
 * offered to programs in an image: there the wall between jobs is the image's.
 */

import { isServing } from "../../domain/job/serving-env.ts";
import type { RunOrder } from "../../protocol/agent-contract.ts";
import { launchLimits } from "../containment/limits.ts";
import type { AgentHost } from "./agent-host.ts";

export interface ServedWeights {
  readonly dir: string;
  readonly mostBytes: number;
}

const SHARE_OF_LIMIT = 1 / 4;

interface LaunchUser {
  /** Where it is not the agent's. */
  readonly uid: number | undefined;
  /** Folders that the user gets; this one is added. */
  readonly handed: string[];
}

export function servedWeights(
  host: AgentHost,
  order: RunOrder,
  { uid, handed }: LaunchUser,
): ServedWeights | undefined {
  const { weights: pool, system } = host;
  const isOffered =
    isServing(order.run.command) && order.model !== undefined && order.run.container === undefined;
  if (pool === undefined || pool.budgetBytes === 0 || !isOffered) return undefined;
  pool.trim(system.clock.nowMs());
  const found = launchLimits(order, host);
  const limit = "limits" in found ? found.limits.memoryBytes : undefined;
  const mostBytes = Math.floor(Math.min(pool.budgetBytes, (limit ?? Infinity) * SHARE_OF_LIMIT));
  const dir = pool.area(order.holder.tenant, uid);
  if (dir === undefined || mostBytes === 0) return undefined;
  handed.push(dir);
  return { dir, mostBytes };
}
