/**
 * @file Refills the inference headroom by evictions, in the name of the inference jobs that run on GPUs of it.
 *
 * The headroom covers the time between an inference job's arrival and the GPUs that are due to it: the job starts at once on free reserved
 * GPUs, and another job gives up as many after a checkpoint, so that the next one finds them. Evictions start when the free GPUs, with those
 * that are being freed, have fallen below `REFILL_SHARE` of the target: down to there natural ends and the
 * ends of inference jobs themselves refill it at no cost. A refill is judged as if the job asked once more for the GPUs that it holds: same
 * right of due, with the headroom in the demand of inference, same search for the place, same budget, and the loss is charged to it
 * (plan-preemption.ts).
 * Only jobs that have run for `REFILL_AFTER_MS` count: a job that finishes within a checkpoint's time frees its GPUs faster than an eviction
 * would. For no job more is freed than it holds, ever (`apply` counts): so each job causes at most that many evictions,
 * and none of them causes another.
 * Cost: O(leases) where GPUs are missing, and `MAX_SEARCHES` searches.
 */

import { gpuCountOf, type Lease } from "../../domain/lease/lease.ts";
import { ms } from "../../domain/values/units.ts";
import type { EvictItem, PendingRequest, ReserveItem } from "../../domain/lease/plan.ts";
import { usesHeadroom, lentGpus } from "../ledger/apply/apply-reservations.ts";
import type { CycleView } from "../admission/feasibility.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { tenantFlow } from "../ledger/rules/flow.ts";
import type { PreemptionAccount } from "./account.ts";
import { planPreemption, type PreemptionContext } from "./plan-preemption.ts";

/** No evictions while more than this part of the target is free or being freed. */
const REFILL_SHARE = 0.8;
/** Half of a checkpoint's time: run times spread over orders of magnitude, so a job of this age is likely to run as long again. */
export const REFILL_AFTER_MS = 1_000;
/** Jobs in whose name one cycle evicts, at most. */
const MAX_JOBS = 4;
/** Searches of one cycle. When all fail, jobs with fewer GPUs of the headroom are not looked at until one of the others ends. */
const MAX_SEARCHES = 12;

export interface HeadroomLevel {
  /** GPUs that should be free. */
  readonly targetGpus: number;
  /** GPUs that are free and reserved, or being freed. */
  readonly gpus: number;
}

export const isLow = ({ targetGpus, gpus }: HeadroomLevel): boolean =>
  gpus < REFILL_SHARE * targetGpus;

export interface HeadroomRefill {
  readonly evict: readonly EvictItem[];
  readonly reserve: readonly ReserveItem[];
  readonly work: number;
  /** When the next job may be named; infinite when none is too young. */
  readonly wakeAtMs: number;
}

export function planRefill(
  level: HeadroomLevel,
  view: CycleView,
  context: PreemptionContext,
): HeadroomRefill {
  const { preemption } = context;
  const evict: EvictItem[] = [];
  const reserve: ReserveItem[] = [];
  let work = 0;
  let missing = level.targetGpus - level.gpus;
  let searches = 0;
  const { old, wakeAtMs } = usersOf(preemption);
  /** Kinds of jobs whose search failed: an equivalent one fails, too, until another search succeeds. */
  const failedSearches = new Set<string>();
  for (const lease of old) {
    if (missing < 1 || reserve.length === MAX_JOBS || searches === MAX_SEARCHES) break;
    const gpus = Math.min(lentGpus(lease), missing);
    const kind = `${tenantFlow(lease)} ${gpus} ${JSON.stringify(lease.terms?.constraints)}`;
    if (failedSearches.has(kind)) continue;
    searches += 1;
    const plan = planPreemption(asIfAgain(lease, gpus), view, {
      ...context,
      preemption: withDemand(preemption, lease, level.targetGpus),
    });
    work += plan?.work ?? 1;
    if (plan === undefined) {
      failedSearches.add(kind);
      continue;
    }
    failedSearches.clear();
    evict.push(...plan.evict);
    reserve.push({ ...plan.reserve, kind: "headroom" });
    missing -= freedBy(plan.evict, preemption);
  }
  return { evict, reserve, work, wakeAtMs };
}

/** Whole gangs count: freed GPUs that no request waits for are headroom, too. */
const freedBy = (evict: readonly EvictItem[], { ledger }: PreemptionAccount): number =>
  evict.reduce(
    (sum, { lease, keep = [] }) =>
      sum + gpuCountOf(ledger.leases.get(lease)?.gpus ?? []) - gpuCountOf(keep),
    0,
  );

/** GPUs that evictions under way will free for the headroom. */
export function incomingGpus({ leases, reservations }: Ledger): number {
  let gpus = 0;
  if (![...(reservations?.values() ?? [])].some(({ kind }) => kind === "headroom")) return gpus;
  for (const { gpus: held, eviction } of leases.values()) {
    if (eviction === undefined || reservations?.get(eviction.forJob)?.kind !== "headroom") continue;
    gpus += gpuCountOf(held) - gpuCountOf(eviction.keep ?? []);
  }
  return gpus;
}

/** Jobs with most GPUs of the headroom first, so that few evictions serve many GPUs; then the longest running, which are likely to last longest. */
function usersOf({ ledger, nowMs }: PreemptionAccount): {
  readonly old: readonly Lease[];
  readonly wakeAtMs: number;
} {
  const old: Lease[] = [];
  let wakeAtMs = Infinity;
  for (const lease of ledger.leases.values()) {
    if (!usesHeadroom(lease) || lentGpus(lease) < 1) continue;
    if (ledger.reservations?.has(lease.jobId) === true) continue;
    const fromMs = lease.grantedAtMs + REFILL_AFTER_MS;
    if (fromMs > nowMs) wakeAtMs = Math.min(wakeAtMs, fromMs);
    else old.push(lease);
  }
  old.sort((a, b) => lentGpus(b) - lentGpus(a) || a.token - b.token);
  return { old, wakeAtMs };
}

/** The request of a job like it: the freed GPUs must be of use to those. */
function asIfAgain({ terms, ...lease }: Lease, gpus: number): PendingRequest {
  const { jobId, runId, seq, class: jobClass, tenant, grantedAtMs } = lease;
  return {
    jobId,
    runId,
    seq,
    name: jobClass,
    tenant,
    class: jobClass,
    priority: terms?.priority ?? 0,
    gang: { gpus, min: gpus, timeoutMs: ms(0) },
    constraints: terms?.constraints ?? { isSameHost: false, isSameFabric: false },
    submittedAtMs: terms?.submittedAtMs ?? grantedAtMs,
    requestedAtMs: grantedAtMs,
    arrival: 0,
  };
}

/**
 * The same account with the headroom in the demand of the job's flow. All that is free or on its way counts as held by nobody, so the
 * others hold above their dues what is missing from the target, however much is on its way.
 */
function withDemand(preemption: PreemptionAccount, lease: Lease, gpus: number): PreemptionAccount {
  const { due: _due, ...holdings } = preemption.holdings;
  const demand = new Map(holdings.demand);
  const flow = tenantFlow(lease);
  demand.set(flow, (demand.get(flow) ?? 0) + gpus);
  return { ...preemption, holdings: { ...holdings, demand } };
}
