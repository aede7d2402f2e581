/** @file What each cycle did, in sentences: from the plans that the fleet has folded. Pure. */

import { gpuCountOf } from "../../domain/lease/lease.ts";
import type { Plan } from "../../domain/lease/plan.ts";
import type { DecisionRow } from "../../page/wire.ts";
import type { Folded } from "../follow/fleet-run.ts";
import type { Applied } from "../../scheduling/ledger/ledger.ts";
import { apply } from "../../scheduling/ledger/apply/apply.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";

/** Sentences of one kind in a row; the others are counted. */
const MAX_LINES = 20;

/** A plan with what its application refused. */
export interface Decided extends Pick<Applied, "refusals"> {
  readonly plan: Plan;
  readonly nowMs: number;
  /** Those that the plan evicts, as they were before it. */
  readonly before: Pick<Ledger, "leases">;
}

/** Undefined for an event that is no plan, and for a plan that changes nothing. */
export function decisionOf({
  event,
  before,
}: Pick<Folded, "event" | "before">): DecisionRow | undefined {
  if (event.kind !== "plan" || isEmpty(event.plan)) return undefined;
  const { plan, nowMs } = event;
  return decisionRow({ plan, nowMs, before, refusals: apply(before, event).refusals });
}

export const isEmpty = ({ items, evict = [], reserve = [] }: Plan): boolean =>
  items.length + evict.length + reserve.length === 0;

export function decisionRow({ plan, nowMs, before, refusals }: Decided): DecisionRow {
  const { items, evict = [], reserve = [], pending } = plan;
  return {
    atMs: nowMs,
    method: plan.stats.method,
    candidates: plan.stats.candidates,
    grants: shortened(
      items.map(
        ({ request, gpus, reason }) =>
          `${request.jobId}: ${gpusText(gpus)} on ${placesText(gpus)}. ${reason}`,
      ),
    ),
    evictions: shortened(
      evict.map(({ lease, forJob, lostGpuSeconds, reason }) => {
        const job = before.leases.get(lease)?.jobId ?? lease;
        return `${job} for ${forJob}, ${Math.round(lostGpuSeconds)} GPU-seconds lost. ${reason}`;
      }),
    ),
    reservations: shortened(reserve.map(reserveText)),
    refusals: shortened(refusals.map(({ code, message }) => `${code} ${message}`)),
    waiting: pending.length,
  };
}

const reserveText = ({ jobId, gpus, kind }: NonNullable<Plan["reserve"]>[number]): string =>
  gpus.length === 0
    ? `${jobId}: reservation ended`
    : `${jobId}: ${gpusText(gpus)} on ${placesText(gpus)} (${kind})`;

function gpusText(gpus: Parameters<typeof gpuCountOf>[0]): string {
  const count = gpuCountOf(gpus);
  return count === 1 ? "1 GPU" : `${count} GPUs`;
}

const placesText = (gpus: readonly { readonly host: string }[]): string =>
  gpus.length <= 2
    ? gpus.map(({ host }) => host).join(", ")
    : `${gpus[0]?.host ?? ""} and ${gpus.length - 1} more hosts`;

function shortened(lines: readonly string[]): readonly string[] {
  if (lines.length <= MAX_LINES) return lines;
  return [...lines.slice(0, MAX_LINES), `and ${lines.length - MAX_LINES} more`];
}
