/**
 * @file Why no job gives way to a waiting one: for each rule that forbids it, the leases that it protects, with its figures.
 *
 * Every lease with a GPU that suits the request counts once, under the first rule of `RULES` that keeps it: what holds of the lease itself,
 * then of the two flows, then of the tenant's budget. `no-place` has those that no rule keeps: no cycle has found a place
 * for the gang without them, or one that is worth a restart. Rules and figures are those of the search itself (preemption/). Cost: O(ledger).
 */

import { DEFAULT_POLICY } from "../../domain/fleet/fleet.ts";
import { gpuCountOf, type Lease } from "../../domain/lease/lease.ts";
import type { PendingRequest } from "../../domain/lease/plan.ts";
import type { JobId } from "../../domain/values/ids.ts";
import { DECIDE_POLICIES } from "../cycle/decide.ts";
import { openSchedulerCache } from "../cycle/scheduler-cache.ts";
import { dueTo, heldIn } from "../fairness/holdings.ts";
import { spentBudget } from "../ledger/apply/apply-evictions.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { classFlow, tenantFlow } from "../ledger/rules/flow.ts";
import { isSuitable, largestAcceptable } from "../ledger/rules/grant-check.ts";
import { isAffordable, openPreemption, type PreemptionAccount } from "../preemption/account.ts";
import { evictableAtMs, lossOf } from "../preemption/eviction-cost.ts";
import { chooseVictims, dueRoom } from "../preemption/victim-choice.ts";

/** In the order in which they are asked. */
export const RULES = [
  "fleet-never-preempts",
  "not-preemptible",
  "stops-already",
  "protected",
  "lent",
  "no-checkpoint",
  "higher-priority",
  "served-less",
  "own-due",
  "their-due",
  "budget",
  "no-place",
] as const;
export type KeepingRule = (typeof RULES)[number];

export interface Kept {
  readonly rule: KeepingRule;
  readonly leases: number;
  readonly gpus: number;
  /** The figures by which the rule decides; of `protected`, when the first protection ends. */
  readonly numbers: Readonly<Record<string, number>>;
}

/** In the order of the rules; empty where no lease is in the way. */
export function whoKeeps(ledger: Ledger, job: JobId, nowMs: number): readonly Kept[] {
  const request = ledger.requests.get(job);
  if (request === undefined) return [];
  const { capacity } = openSchedulerCache(ledger, DECIDE_POLICIES.queue);
  const { places } = capacity.index;
  const account = openPreemption(ledger, capacity, { nowMs });
  const kept = new Map<KeepingRule, Lease[]>();
  const ruleOf = account === undefined ? undefined : rulesFor(request, account);
  for (const lease of ledger.leases.values()) {
    const isInTheWay = lease.gpus.some(({ host }) => {
      const place = places.get(host);
      return place !== undefined && isSuitable(request, place);
    });
    if (!isInTheWay || lease.jobId === job) continue;
    const rule = ruleOf?.(lease) ?? "fleet-never-preempts";
    kept.set(rule, [...(kept.get(rule) ?? []), lease]);
  }
  return RULES.flatMap((rule) => {
    const leases = kept.get(rule);
    if (leases === undefined) return [];
    const gpus = leases.reduce((sum, each) => sum + gpuCountOf(each.gpus), 0);
    const numbers = account === undefined ? {} : numbersOf(rule, request, { account, leases });
    return [{ rule, leases: leases.length, gpus, numbers }];
  });
}

function rulesFor(
  request: PendingRequest,
  account: PreemptionAccount,
): (lease: Lease) => KeepingRule {
  const { holdings, nowMs, taken, victims: book } = account;
  const room = dueRoom(request, holdings);
  const wanted = largestAcceptable(request, room, nowMs);
  const whole = largestAcceptable(request, Infinity, nowMs) ?? request.gang.gpus;
  const choices = (["due", "reclaim"] as const).map((right) =>
    chooseVictims(request, right === "due" ? (wanted ?? whole) : whole, right, {
      holdings,
      book,
      nowMs,
      taken,
      freeGpus: () => 0,
    }),
  );
  const { order } = DECIDE_POLICIES;
  const hasDue = wanted !== undefined && wanted >= 1;
  return (lease) => {
    const victim = book.all.get(lease.id);
    if (victim === undefined)
      return lease.eviction === undefined && evictableAtMs(lease) === Infinity
        ? "not-preemptible"
        : "stops-already";
    if (victim.fromMs > nowMs) return "protected";
    if (tenantFlow(lease) === tenantFlow(request)) {
      if (lease.opportunistic !== undefined) return "lent";
      if (lease.terms?.checkpoint === undefined) return "no-checkpoint";
      if (lease.terms.priority > request.priority) return "higher-priority";
      if (order?.givesWay(lease, order.rankOf(request), nowMs) !== true) return "served-less";
    } else {
      const [due, reclaim] = choices;
      const mayTake = (hasDue && due?.allows(victim)) === true || reclaim?.allows(victim) === true;
      if (!mayTake) return hasDue ? "their-due" : "own-due";
    }
    return isAffordable(account, request.tenant, lossOf(lease, nowMs)) ? "no-place" : "budget";
  };
}

function numbersOf(
  rule: KeepingRule,
  request: PendingRequest,
  { account, leases }: { readonly account: PreemptionAccount; readonly leases: readonly Lease[] },
): Kept["numbers"] {
  const { holdings, ledger, nowMs } = account;
  const needGpus = request.gang.gpus;
  switch (rule) {
    case "protected":
      return { untilMs: Math.min(...leases.map(evictableAtMs)) };
    case "higher-priority":
      return { priority: request.priority };
    case "own-due":
      return {
        needGpus,
        heldGpus: heldIn(holdings, tenantFlow(request)),
        dueGpus: dueTo(holdings, tenantFlow(request)),
        classHeldGpus: heldIn(holdings, classFlow(request)),
        classDueGpus: dueTo(holdings, classFlow(request)),
      };
    case "their-due": {
      const flows = [...new Set(leases.map(tenantFlow))];
      const sumOf = (of: (flow: string) => number): number =>
        flows.reduce((sum, flow) => sum + of(flow), 0);
      return {
        heldGpus: sumOf((flow) => heldIn(holdings, flow)),
        dueGpus: sumOf((flow) => dueTo(holdings, flow)),
      };
    }
    case "budget": {
      const policy = ledger.shape.policy ?? DEFAULT_POLICY;
      return {
        spentGpuSeconds: spentBudget(ledger.evictions ?? [], request.tenant, nowMs),
        budgetGpuSeconds: policy.preemptionBudgetGpuSeconds,
      };
    }
    case "no-place":
      return { needGpus };
    default:
      return {};
  }
}
