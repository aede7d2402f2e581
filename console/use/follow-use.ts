/**
 * @file Reads how much the GPUs of a fleet are used, again and again, from the heartbeats of its agents. One reader for all browsers; no worker is
 * asked. Clusters whose GPUs are made up are not read at all, and a fleet of which no agent tells anything is rarely.
 */

import type { Client } from "@temporalio/client";
import { setTimeout as sleep } from "node:timers/promises";
import { gpuUse } from "../../client/index.ts";
import type { FleetShape } from "../../domain/fleet/fleet.ts";
import type { HostUse } from "../../domain/lease/gpu-use.ts";
import type { ClusterId, HostId } from "../../domain/values/ids.ts";

/** By host; those that say nothing are absent. */
export type FleetUse = ReadonlyMap<HostId, HostUse>;

export interface UseReader {
  readonly client: Client;
  readonly fleet: string;
  /** Undefined before the fleet is known. */
  readonly shape: () => FleetShape | undefined;
  /** As in `UseQuery`. */
  readonly queueOf: (host: HostId) => string | undefined;
  readonly signal: AbortSignal;
  readonly onUse: (use: FleetUse) => void;
}

const READ_EVERY_MS = 10_000;
const WITHOUT_MS = 20_000;
const UNKNOWN_MS = 1_000;
/** What could be read last counts for so long where a cluster cannot be read now. */
const STALE_MS = 90_000;

export async function followUse(reader: UseReader): Promise<void> {
  const { client, fleet, shape, queueOf, signal, onUse } = reader;
  const known = new Map<ClusterId, { readonly atMs: number; readonly use: FleetUse }>();

  const read = async (): Promise<number> => {
    const clusters = shape()?.clusters.filter(({ isSimulated }) => !isSimulated);
    if (clusters === undefined) return UNKNOWN_MS;
    await Promise.all(
      clusters.map(async ({ id }) => {
        // A presence that has not begun, and a server that is away, tell nothing.
        const use = await gpuUse(client, { fleet, cluster: id, queueOf }).catch(() => undefined);
        if (use !== undefined) known.set(id, { atMs: performance.now(), use });
      }),
    );
    if (signal.aborted) return 0;
    const fresh = [...known.values()].filter(({ atMs }) => performance.now() - atMs < STALE_MS);
    const all = new Map(fresh.flatMap(({ use }) => [...use]));
    onUse(all);
    return all.size > 0 ? READ_EVERY_MS : WITHOUT_MS;
  };

  while (!signal.aborted) {
    const pauseMs = await read();
    await sleep(pauseMs, undefined, { signal, ref: false }).catch(() => undefined);
  }
}
