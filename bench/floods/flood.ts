/** @file What a flood is: many calls of one kind to a live fleet, by someone who is not the tenant whose job is timed. */

import type { Client } from "@temporalio/client";
import { setTimeout as sleep } from "node:timers/promises";
import type { OrbweaverClient } from "../../client/index.ts";

export interface FloodTarget {
  readonly fleet: string;
  readonly temporal: Client;
  readonly orbweaver: OrbweaverClient;
}

export interface FloodSize {
  /** Calls, jobs or entries, as the flood counts. */
  readonly count: number;
  readonly inFlight: number;
  /** Begins the ids of its jobs. */
  readonly label: string;
}

/** Resolves when the last call was answered, with the number of calls that the server took; a refusal is no error. */
export type Flood = (target: FloodTarget, size: FloodSize) => Promise<number>;

/** The tenant of every job and request of a flood. */
export const ATTACKER = "attacker";

/** A call that has no answer by then was not taken: Temporal's client never gives up on a broken connection. */
const ANSWER_WITHIN_MS = 60_000;

/** Calls with bounded concurrency; how many were answered without an error. */
export async function callMany(
  { count, inFlight }: Pick<FloodSize, "count" | "inFlight">,
  call: (index: number) => Promise<unknown>,
): Promise<number> {
  let next = 0;
  let taken = 0;
  const lane = async (): Promise<void> => {
    for (let index = next++; index < count; index = next++) {
      if (await isTaken(call(index))) taken += 1;
    }
  };
  await Promise.all(Array.from({ length: Math.min(inFlight, count) }, lane));
  return taken;
}

async function isTaken(call: Promise<unknown>): Promise<boolean> {
  const over = new AbortController();
  const late = sleep(ANSWER_WITHIN_MS, false, { signal: over.signal }).catch(() => false);
  const answered = call.then(
    () => true,
    () => false,
  );
  const result = await Promise.race([answered, late]);
  over.abort();
  return result;
}
