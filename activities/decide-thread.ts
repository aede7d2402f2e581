/** @file The thread of `decider.ts`: unpacks a snapshot, opens the bandwidth models that it names, decides, answers. */

import { parentPort, workerData } from "node:worker_threads";
import type { HostId } from "../domain/ids.ts";
import { decide } from "../scheduling/decide.ts";
import { unpackLedger, type PackedLedger } from "../scheduling/ledger-codec.ts";
import type { DecideAnswer } from "./decider.ts";
import { createModelShelf } from "./model-shelf.ts";
import { directoryStore, type FleetDetails } from "./store.ts";

interface Question {
  readonly id: number;
  readonly snapshot: PackedLedger;
  readonly nowMs: number;
}

const { storeDir } = workerData as { readonly storeDir: string };
const store = directoryStore(storeDir);
const shelf = createModelShelf(storeDir);
let loaded: { readonly hash: string; readonly details: FleetDetails | undefined } | undefined;

async function detailsOf(hash: string | undefined): Promise<FleetDetails | undefined> {
  if (hash === undefined) return undefined;
  if (loaded?.hash !== hash) loaded = { hash, details: await store.get<FleetDetails>(hash) };
  return loaded.details;
}

async function answer({ id, snapshot, nowMs }: Question): Promise<DecideAnswer> {
  try {
    const details = await detailsOf(snapshot.detailsHash);
    const tables = new Map(details?.hosts ?? []);
    const bandwidthOf = (host: HostId, mask: number): number | undefined =>
      tables.get(host)?.bandwidth?.gbsByMask[mask] ?? undefined;
    const ledger = unpackLedger(snapshot);
    const predictorOf =
      ledger.models === undefined ? undefined : await shelf.predictorsFor(ledger, tables);
    const ports = { bandwidthOf, ...(predictorOf !== undefined && { predictorOf }) };
    return { id, plan: decide(ledger, nowMs, ports) };
  } catch (error) {
    return { id, error: error instanceof Error ? (error.stack ?? error.message) : String(error) };
  }
}

parentPort?.on("message", (question: Question) => {
  void answer(question).then((reply) => parentPort?.postMessage(reply));
});
