/** @file A small fleet at ten minutes, full of jobs of its first moment, for tests of who may be evicted for whom. */

import type { FleetShape } from "../../../domain/fleet/fleet.ts";
import { gpuCountOf, type HostGpus } from "../../../domain/lease/lease.ts";
import type { CycleView } from "../../../scheduling/admission/feasibility.ts";
import type { Ledger } from "../../../scheduling/ledger/ledger.ts";
import type { PreemptionAccount } from "../../../scheduling/preemption/account.ts";
import {
  chooseVictims,
  type Right,
  type VictimChoice,
} from "../../../scheduling/preemption/victim-choice.ts";
import { ask, inbox, leased, readyLedger, type RequestSpec } from "../builders.ts";
import { requestOf } from "../cycle-parts.ts";
import { viewOf } from "../preempting.ts";

export const NOW_MS = 600_000;

export type Held = readonly [job: string, parts: readonly HostGpus[], spec?: RequestSpec];

/** Leases that were granted at 0 in this order, and requests that are made now. */
export function busyLedger(
  shape: FleetShape,
  held: readonly Held[],
  waiting: readonly RequestSpec[] = [],
): Ledger {
  let ledger = readyLedger(shape);
  for (const [job, parts, spec = {}] of held)
    ledger = leased(ledger, { job, gpus: gpuCountOf(parts), ...spec }, parts);
  return inbox(
    ledger,
    waiting.map((spec) => ask({ requestedAtMs: NOW_MS, ...spec })),
    NOW_MS,
  ).ledger;
}

export interface Choice {
  readonly choice: VictimChoice;
  readonly view: CycleView;
  readonly preemption: PreemptionAccount;
}

export function choiceFor(
  ledger: Ledger,
  job: string,
  {
    right = "due",
    wanted,
    freeGpus = 0,
    nowMs = NOW_MS,
  }: {
    right?: Exclude<Right, "order">;
    wanted?: number;
    freeGpus?: number;
    nowMs?: number;
  } = {},
): Choice {
  const { view, preemption } = viewOf(ledger, nowMs);
  const { holdings, victims, taken } = preemption;
  const request = requestOf(ledger, job);
  const choice = chooseVictims(request, wanted ?? request.gang.gpus, right, {
    holdings,
    book: victims,
    nowMs,
    taken,
    freeGpus: () => freeGpus,
  });
  return { choice, view, preemption };
}

export const jobsOf = (victims: readonly { readonly lease: { readonly jobId: string } }[]) =>
  victims.map(({ lease }) => lease.jobId);
