/** @file What a host keeps in its memory of models that were served there, as its agent tells it with heartbeats. */

import { isFields } from "../../lib/fields.ts";
import { parseHostId, type HostId } from "../values/ids.ts";

export interface KeptWeights {
  readonly models: number;
  readonly bytes: number;
  /** The most that it keeps. */
  readonly budgetBytes: number;
}

const AMOUNTS = ["models", "bytes", "budgetBytes"] as const;

/** A heartbeat is untrusted data: what has another form is left out. */
export function readKeptWeights(details: unknown): ReadonlyMap<HostId, KeptWeights> {
  const weights = isFields(details) ? details["weights"] : undefined;
  if (!isFields(weights)) return new Map();
  return new Map(
    Object.entries(weights).flatMap(([host, said]) => {
      if (!/^[^/\s]+\/[^/\s]+$/.test(host) || !isFields(said)) return [];
      const [models, bytes, budgetBytes] = AMOUNTS.map((name) => said[name]);
      return isAmount(models) && isAmount(bytes) && isAmount(budgetBytes)
        ? [[parseHostId(host), { models, bytes, budgetBytes }] as const]
        : [];
    }),
  );
}

const isAmount = (value: unknown): value is number =>
  typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
