/** @file Two hosts of eight GPUs with reservations, for tests of their use by others. */

import { gpuCountOf, type HostGpus, type Reservation } from "../../../domain/lease/lease.ts";
import { jobId } from "../../../domain/values/ids.ts";
import type { CycleView } from "../../../scheduling/admission/feasibility.ts";
import { openCapacity } from "../../../scheduling/capacity/capacity.ts";
import { RESERVATION_RULES, type Backfill } from "../../../scheduling/cycle/policies.ts";
import type { Ledger } from "../../../scheduling/ledger/ledger.ts";
import {
  openReservations,
  type ReservationSet,
} from "../../../scheduling/reservation/reservation-set.ts";
import {
  ask,
  fleetShape,
  gpus,
  inbox,
  leased,
  readyLedger,
  type RequestSpec,
} from "../builders.ts";

export const H0 = gpus(["c0/h0", 0xff]);
export const H1 = gpus(["c0/h1", 0xff]);

export type Held = readonly [job: string, parts: readonly HostGpus[], spec?: RequestSpec];

/** Leases that were granted at 0, and requests that wait since then. */
export function ledgerWith(held: readonly Held[], waiting: readonly RequestSpec[]): Ledger {
  let ledger = readyLedger(fleetShape([{ hosts: [{}, {}] }]));
  for (const [job, parts, spec = {}] of held)
    ledger = leased(ledger, { job, ...spec, gpus: gpuCountOf(parts) }, parts);
  return inbox(ledger, waiting.map(ask)).ledger;
}

export const reserved = (
  job: string,
  parts: readonly HostGpus[],
  change: Partial<Reservation> = {},
): Reservation => ({ jobId: jobId(job), gpus: parts, kind: "backfill", sinceMs: 0, ...change });

export interface Scene {
  readonly reservations: ReservationSet;
  readonly view: CycleView;
}

export function openSet(
  ledger: Ledger,
  all: readonly Reservation[],
  { nowMs = 1_000, backfill = "persistent" }: { nowMs?: number; backfill?: Backfill } = {},
): Scene {
  const capacity = openCapacity({
    ...ledger,
    reservations: new Map(all.map((each) => [each.jobId, each])),
  });
  const rule = RESERVATION_RULES[backfill];
  const { requests } = ledger;
  return {
    reservations: openReservations(capacity, { rule, nowMs, reservations: all, requests }),
    view: { capacity, claims: new Map(), nowMs },
  };
}
