/**
 * @file Requests that a pass need not look at: of equal ones another has come in this pass, and has changed nothing.
 *
 * In a pass through the queue a request is *settled* when its code is known (equivalence-memo.ts), and neither the plan, nor reservations, nor
 * claims of quota change with it (admission-pass.ts). That depends on its constraints, sizes and tenant, on the reservations that are open to
 * it, and on what it was told before: on its label. In the first pass of a cycle the label of a settled request stays settled until
 * reservations change, because GPUs only become fewer, rights to search for victims too, and what was claimed stays claimed.
 * A label never depends on time: requests that will accept less after a gang timeout have none, nor do arrays and jobs with reservations.
 * Cost: O(1) for each request that is passed over, without a look at it; a text for each that gets a label, which lasts for many cycles.
 */

import type { PendingRequest } from "../../domain/lease/plan.ts";
import { optionsNumber } from "../capacity/capacity.ts";
import { canShrink, shrinkAtMs } from "../ledger/rules/grant-check.ts";
import { mayBackfillOn } from "../ledger/rules/opportunistic-terms.ts";
import { NO_LABEL, type LabelledWalk, type PassingOver } from "../queue/labels.ts";
import type { CycleInput } from "./cycle-input.ts";
import type { EarlyStop } from "./early-stop.ts";
import { isAtLimit, type CycleParts } from "./parts.ts";
import { toldName } from "./wait-reports.ts";

export interface SettledRequests {
  /** The next request that has to be looked at. */
  readonly next: () => PendingRequest | undefined;
  /** The request that the cursor returned last is settled. */
  readonly note: (request: PendingRequest) => void;
  /** How many requests were passed over. */
  readonly passed: () => number;
}

export function openSettledRequests(
  { cache, snapshot, nowMs }: CycleInput,
  parts: Pick<CycleParts, "plan" | "work" | "reservations">,
  {
    pass,
    cursor,
    stop,
  }: {
    /** 1 for the first pass of the cycle. */
    readonly pass: number;
    readonly cursor: LabelledWalk;
    readonly stop: Pick<EarlyStop, "isFarOff">;
  },
): SettledRequests {
  const { work, reservations } = parts;
  const { capacity, labels, queue } = cache;
  const settled = new Set<number>();
  const passing: PassingOver = { labels: settled, count: 0 };
  /** The count of reservation changes up to which the labels are settled. */
  let settledAt = reservations.changes;
  return {
    next() {
      if (settledAt !== reservations.changes) settled.clear();
      settledAt = reservations.changes;
      if (!mayPass()) return cursor.next();
      const before = passing.count;
      const request = cursor.next(passing);
      work.spend(passing.count - before);
      return request;
    },
    note(request) {
      if (pass !== 1) return;
      const known = cursor.label?.() ?? NO_LABEL;
      const label = known === NO_LABEL ? labelOf(request) : known;
      if (label === NO_LABEL) return;
      if (known === NO_LABEL) cursor.setLabel?.(label);
      settled.add(label);
    },
    passed: () => passing.count,
  };

  /** What may end the pass is asked of each request, and so it is once the work is nearly spent. */
  function mayPass(): boolean {
    return settled.size > 0 && stop.isFarOff() && !isAtLimit(parts) && work.isLeft(queue.size());
  }

  function labelOf(request: PendingRequest): number {
    const { gang, tenant, class: jobClass, timeLimitMs, slots } = request;
    if (cursor.setLabel === undefined || slots !== undefined || capacity.index.hasWindows)
      return NO_LABEL;
    if (canShrink(gang) && nowMs < shrinkAtMs(request)) return NO_LABEL;
    const number = optionsNumber(capacity, request, nowMs);
    if (number === undefined) return NO_LABEL;
    const { gpus, min, shapes } = gang;
    const reach = `${jobClass === "inference"} ${mayBackfillOn(request)} ${timeLimitMs}`;
    const former = toldName(snapshot.reasons.get(request.jobId)?.code);
    return labels.of(`${number} ${gpus} ${min} ${shapes?.join()} ${tenant} ${reach} ${former}`);
  }
}
