/** @file Holds, suspends and requeues a job array: a hold lets running batches end, the others stop them and give all leases back. */

import { authorIn, type GivenUp } from "../../protocol/job-orders.ts";
import { notAllowed, type OrderRefusal } from "../job/order-refusal.ts";
import { notRunning, UNNAMED, type NamedState } from "../job/paused.ts";
import type { JobArray } from "./array-state.ts";
import type { HeldLease } from "./held-lease.ts";

export function holdArray(array: JobArray, order: unknown, atMs: number): JobArray {
  const by = authorIn(order);
  const held = { ...array, isHeld: true };
  return by === undefined ? held : { ...held, pause: { kind: "hold", by, atMs } };
}

export function releaseArray({ pause: _over, ...array }: JobArray): JobArray {
  return { ...array, isHeld: false };
}

export const requeueArrayProblem = (array: JobArray): OrderRefusal | undefined =>
  array.leases.size > 0 ? undefined : notAllowed(notRunning(namedState(array)));

const namedState = ({ jobId, isHeld }: JobArray): NamedState => ({
  jobId,
  shown: isHeld ? "held" : "pending",
});

export const isStopping = ({ leases }: JobArray): boolean =>
  [...leases.values()].some(({ givenUp }) => givenUp !== undefined);

export function giveUpLeases(
  array: JobArray,
  { kind, order }: { readonly kind: Exclude<GivenUp["kind"], "move">; readonly order: unknown },
  atMs: number,
): JobArray {
  const by = authorIn(order) ?? UNNAMED;
  const givenUp: GivenUp = { kind, by, atMs };
  const leases = new Map<HeldLease["grant"]["lease"]["id"], HeldLease>(
    [...array.leases].map(([id, held]) => [id, { ...held, givenUp: held.givenUp ?? givenUp }]),
  );
  if (kind === "requeue") return { ...array, leases };
  return { ...array, leases, isHeld: true, pause: { kind: "suspend", by, atMs } };
}
