/** @file What each cycle did, in sentences: from the plans that the fleet has folded. Pure. */

import { gpuCountOf } from "../../domain/lease/lease.ts";
import type { Plan } from "../../domain/lease/plan.ts";
import type { DecisionRow } from "../../page/wire.ts";
import type { Folded } from "../follow/fleet-run.ts";
import type { Applied } from "../../scheduling/ledger/ledger.ts";
import { apply } from "../../scheduling/ledger/apply/apply.ts";

/** Sentences of one kind in a row; the others are counted. */
const MAX_LINES = 20;

/** `refusals`: of the plan's application, where they are known. */
export type Decided = Pick<Folded, "event" | "before"> & Partial<Pick<Applied, "refusals">>;

/** Undefined for an event that is no plan, and for a plan that changes nothing. */
export function decisionRow({ event, before, refusals: known }: Decided): DecisionRow | undefined {
  if (event.kind !== "plan") return undefined;
  const { plan, nowMs } = event;
  const { items, evict = [], reserve = [], pending } = plan;
  if (items.length + evict.length + reserve.length === 0) return undefined;
  const refusals = known ?? apply(before, event).refusals;
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
