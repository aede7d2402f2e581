/**
 * @file What this machine knows of bandwidths, so that a what-if decides as the fleet does: measured tables and models in the fleet's store; and the prices of places.
 *
 * A machine without the store answers by topology alone, and the note of the answer says which version it lacks.
 */

import type { DecidePorts } from "../../scheduling/cycle/cycle.ts";
import type { MessagesOf } from "../../domain/bandwidth/sent-messages.ts";
import type { KeepersOf } from "../../domain/lease/kept-weights.ts";
import type { KeptStep } from "../../domain/model/step-record.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import { createModelCache } from "../../activities/model-cache.ts";
import { planPrices } from "../../activities/plan-prices.ts";
import { directoryStore, type FleetDetails } from "../../activities/store.ts";

export async function decidePortsHere(
  ledger: Pick<Ledger, "shape" | "detailsHash" | "models">,
  {
    storeDir,
    kept,
    messagesOf,
    keepersOf,
  }: {
    readonly storeDir: string;
    readonly kept: readonly KeptStep[];
    readonly messagesOf: MessagesOf;
    readonly keepersOf: KeepersOf;
  },
): Promise<DecidePorts> {
  const { detailsHash, models } = ledger;
  const pricesOf = planPrices(ledger.shape, { kept });
  if (models === undefined || models.size === 0) return { pricesOf, keepersOf };
  const details =
    detailsHash === undefined
      ? undefined
      : await directoryStore(storeDir).get<FleetDetails>(detailsHash);
  const predictorOf = await createModelCache(storeDir).predictorsFor(
    ledger,
    new Map(details?.hosts ?? []),
  );
  return { predictorOf, pricesOf, messagesOf, keepersOf };
}
