/**
 * @file Why no job gives way to a waiting one: for each rule that forbids it, the leases that it protects, with its figures.
 *
 * Every lease with a GPU that suits the request counts once, under the first rule of `RULES` that keeps it: what holds of the lease itself,
 * then of the two flows, then of the tenant's budget. `no-place` has those that no rule keeps: no cycle has found a place
 * for the gang without them, or one that is worth a restart. Rules and figures are those of the search itself (preemption/). Cost: O(ledger),
 * times the evictions of the last hour where the tenant's budget is used.
 */

import { DEFAULT_POLICY } from "../../domain/fleet/fleet.ts";
import { gpuCountOf, popCount, type Lease } from "../../domain/lease/lease.ts";
import type { PendingRequest } from "../../domain/lease/plan.ts";
import type { JobId } from "../../domain/values/ids.ts";
import { DECIDE_POLICIES } from "../cycle/decide.ts";
import { openSchedulerCache } from "../cycle/scheduler-cache.ts";
import { dueTo, heldIn, isSameClass, surplusOf } from "../fairness/holdings.ts";
import { BUDGET_MS, preemptionOf, spentBudget } from "../ledger/apply/apply-evictions.ts";
import { fullMask } from "../../lib/bits.ts";
import type { Capacity } from "../capacity/capacity-state.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { classFlow, tenantFlow } from "../ledger/rules/flow.ts";
import { drainedMask } from "../ledger/rules/gpu-drains.ts";
import { hostConditionOf, isSuitable, largestAcceptable } from "../ledger/rules/grant-check.ts";
import { isAffordable, openPreemption, type PreemptionAccount } from "../preemption/account.ts";
import { evictableAtMs, lossOf } from "../preemption/eviction-cost.ts";
import { stretchFor, waitingUpTo } from "../preemption/order-victims.ts";
import { chooseVictims, dueRoom } from "../preemption/victim-choice.ts";
import { levelOf } from "../queue/service-order.ts";

/** In the order in which they are asked. */
export const RULES = [
  "fleet-never-preempts",
  "not-preemptible",
  "stops-already",
  "room-is-coming",
  "protected",
  "lent",
  "no-checkpoint",
  "higher-priority",
  "served-less",
  "own-due",
  "class-due",
  "their-due",
  "budget",
  "no-place",
] as const;
export type KeepingRule = (typeof RULES)[number];

export interface Kept {
  readonly rule: KeepingRule;
  readonly leases: number;
  readonly gpus: number;
  /** The figures by which the rule decides. */
  readonly numbers: Readonly<Record<string, number>>;
  /** When the rule lets the first of them go if nothing else changes; absent where time alone never does. */
  readonly untilMs?: number;
  /** By when the first of them ends by its own time limit; absent where none has one. */
  readonly endsByMs?: number;
}

/** In the order of the rules; empty where no lease is in the way. */
export function whoKeeps(ledger: Ledger, job: JobId, nowMs: number): readonly Kept[] {
  const request = ledger.requests.get(job);
  if (request === undefined) return [];
  const { capacity } = openSchedulerCache(ledger, DECIDE_POLICIES.queue);
  const { places } = capacity.index;
  const account = openPreemption(ledger, capacity, { nowMs });
  const kept = new Map<KeepingRule, Lease[]>();
  const ruleOf =
    account === undefined
      ? undefined
      : rulesFor(request, account, () => freeFor(request, capacity, ledger));
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
    const base = { rule, leases: leases.length, gpus };
    const endsByMs = earliest(leases.map(endByLimitMs));
    const ends = endsByMs === undefined ? {} : { endsByMs };
    if (account === undefined) return [{ ...base, numbers: {}, ...ends }];
    const untilMs = lettingGoMs(rule, request, { account, leases });
    const numbers = numbersOf(rule, request, { account, capacity, leases });
    return [{ ...base, numbers, ...(untilMs !== undefined && { untilMs }), ...ends }];
  });
}

const earliest = (times: readonly number[]): number | undefined => {
  const first = Math.min(...times);
  return first < Infinity ? first : undefined;
};

const endByLimitMs = ({ grantedAtMs, terms }: Lease): number =>
  grantedAtMs + (terms?.timeLimitMs ?? Infinity);

interface UnderRule {
  readonly account: PreemptionAccount;
  readonly leases: readonly Lease[];
}

function lettingGoMs(
  rule: KeepingRule,
  request: PendingRequest,
  { account, leases }: UnderRule,
): number | undefined {
  const { order } = DECIDE_POLICIES;
  if (rule === "protected") return earliest(leases.map(evictableAtMs));
  if (rule === "budget") return affordableAtMs(request, { account, leases });
  if (rule !== "served-less" || order === undefined) return undefined;
  const rank = order.rankOf(request);
  const stretch = stretchFor(request, { order, holdings: account.holdings });
  return earliest(
    leases.map((lease) => Math.max(evictableAtMs(lease), order.givesWayAtMs(lease, rank, stretch))),
  );
}

/** When so many of the tenant's evictions are an hour ago that it may pay for the cheapest of these leases. */
function affordableAtMs(
  { tenant }: PendingRequest,
  { account, leases }: UnderRule,
): number | undefined {
  const { nowMs, ledger } = account;
  const least = Math.min(...leases.map((lease) => lossOf(lease, nowMs)));
  const notes = (ledger.evictions ?? []).filter((note) => note.tenant === tenant);
  return earliest(
    notes
      .map(({ atMs }) => atMs + BUDGET_MS)
      .filter((atMs) => atMs > nowMs && isAffordable({ ...account, nowMs: atMs }, tenant, least)),
  );
}

function rulesFor(
  request: PendingRequest,
  account: PreemptionAccount,
  freeGpus: () => number,
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
      freeGpus,
    }),
  );
  const { order } = DECIDE_POLICIES;
  const stretch = order === undefined ? 1 : stretchFor(request, { order, holdings });
  const mayGiveWay = (lease: Lease): boolean =>
    order?.givesWay(lease, order.rankOf(request), { nowMs, stretch }) === true;
  const dueGpus = wanted !== undefined && wanted >= 1 ? wanted : undefined;
  const own = account.ledger.reservations?.get(request.jobId);
  const isRoomComing = own !== undefined && own.kind !== "backfill";
  const classRoom = -surplusOf(holdings, classFlow(request));
  return (lease) => {
    const victim = book.all.get(lease.id);
    if (victim === undefined)
      return lease.eviction === undefined && evictableAtMs(lease) === Infinity
        ? "not-preemptible"
        : "stops-already";
    if (isRoomComing) return "room-is-coming";
    if (victim.fromMs > nowMs) return "protected";
    if (tenantFlow(lease) === tenantFlow(request)) {
      if (lease.opportunistic !== undefined) return "lent";
      if (lease.terms?.checkpoint === undefined) return "no-checkpoint";
      if (lease.terms.priority > request.priority) return "higher-priority";
      if (!mayGiveWay(lease)) return "served-less";
    } else {
      const [due, reclaim] = choices;
      const mayTake =
        (dueGpus !== undefined && due?.allows(victim)) === true || reclaim?.allows(victim) === true;
      if (!mayTake && dueGpus === undefined) return "own-due";
      if (!mayTake) {
        const isClassFull = !isSameClass(request, lease) && (dueGpus ?? whole) > classRoom;
        return isClassFull ? "class-due" : "their-due";
      }
    }
    return isAffordable(account, request.tenant, lossOf(lease, nowMs)) ? "no-place" : "budget";
  };
}

function numbersOf(
  rule: KeepingRule,
  request: PendingRequest,
  { account, capacity, leases }: UnderRule & { readonly capacity: Capacity },
): Kept["numbers"] {
  const { holdings, ledger, nowMs } = account;
  const needGpus = request.gang.gpus;
  switch (rule) {
    case "protected": {
      const longestMs = Math.max(...leases.map((lease) => preemptionOf(lease).minRuntimeMs));
      const { coolDownMs } = ledger.shape.policy ?? DEFAULT_POLICY;
      return {
        longestSeconds: longestMs / 1_000,
        ...(coolDownMs !== undefined && { coolDownSeconds: coolDownMs / 1_000 }),
      };
    }
    case "not-preemptible": {
      const { maxPreemptions } = ledger.shape.policy ?? DEFAULT_POLICY;
      return maxPreemptions === undefined ? {} : { maxPreemptions };
    }
    case "higher-priority": {
      const leastPriority = Math.min(...leases.map(({ terms }) => terms?.priority ?? Infinity));
      return { priority: request.priority, leastPriority };
    }
    case "served-less":
      return {
        level: levelOf(request),
        waitingGpus: waitingUpTo(request, holdings),
        heldGpus: heldIn(holdings, tenantFlow(request)),
      };
    case "own-due":
      return {
        needGpus,
        heldGpus: heldIn(holdings, tenantFlow(request)),
        dueGpus: dueTo(holdings, tenantFlow(request)),
        tenantWeight: holdings.weightOf(tenantFlow(request)),
      };
    case "class-due":
      return {
        needGpus,
        classHeldGpus: heldIn(holdings, classFlow(request)),
        classDueGpus: dueTo(holdings, classFlow(request)),
        classWeight: holdings.weightOf(classFlow(request)),
      };
    case "their-due": {
      const others = leases.filter((lease) => !isSameClass(request, lease));
      const [tenants, classes] = [new Set(leases.map(tenantFlow)), new Set(others.map(classFlow))];
      const sumOf = (flows: Iterable<string>, of: (flow: string) => number): number =>
        [...flows].reduce((sum, flow) => sum + of(flow), 0);
      const held = (flow: string): number => heldIn(holdings, flow);
      const due = (flow: string): number => dueTo(holdings, flow);
      return {
        heldGpus: sumOf(tenants, held),
        dueGpus: sumOf(tenants, due),
        ...(classes.size > 0 && {
          classHeldGpus: sumOf(classes, held),
          classDueGpus: sumOf(classes, due),
        }),
      };
    }
    case "budget": {
      const policy = ledger.shape.policy ?? DEFAULT_POLICY;
      return {
        spentGpuSeconds: spentBudget(ledger.evictions ?? [], request.tenant, nowMs),
        budgetGpuSeconds: policy.preemptionBudgetGpuSeconds,
      };
    }
    case "no-place": {
      const gpus = leases.reduce((sum, each) => sum + gpuCountOf(each.gpus), 0);
      const freeGpus = freeFor(request, capacity, ledger);
      return { needGpus, freeGpus, togetherGpus: gpus + freeGpus };
    }
    default:
      return {};
  }
}

/** GPUs in service and in no lease, on hosts that suit the request and on which work may start. */
function freeFor(
  request: PendingRequest,
  { index, usage }: Capacity,
  { hosts }: Pick<Ledger, "hosts">,
): number {
  let gpus = 0;
  for (const place of index.places.values()) {
    const { id, gpuCount } = place.host;
    const status = hosts.get(id);
    if (!isSuitable(request, place) || hostConditionOf(status) !== undefined) continue;
    gpus += popCount(fullMask(gpuCount) & ~(drainedMask(status) | (usage.taken.get(id) ?? 0)));
  }
  return gpus;
}
