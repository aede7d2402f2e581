/**
 * @file Refills the latency reserve by evictions, in the name of the inference jobs that run on what was taken from it.
 *
 * The reserve bridges the time between an inference job's arrival and the GPUs that are due to it: the job starts at once on GPUs that
 * were kept free, and somebody else gives up as many after a checkpoint, so that the next one finds them. An order is placed when the
 * stock, with what is on its way to it, has fallen below `REORDER_SHARE` of what ought to be free: down to there natural ends and the
 * ends of inference jobs themselves do it at no cost. It is as if the job asked once more, for what it holds: same right of due, same
 * search for the place, same budget, and the loss is accounted to it (preemption.ts).
 * Only jobs are named that have run for `BRIDGE_AFTER_MS`: who ends before a checkpoint is written gives back its GPUs sooner than
 * anybody could. For no job more is freed than it holds, ever (`apply` counts): so a job is the cause of so many evictions at most,
 * and none of them makes another.
 * Cost: O(leases) where something is missing, and `MOST_SEARCHES` searches.
 */

import { gpuCountOf, type Lease } from "../domain/lease.ts";
import { ms } from "../domain/units.ts";
import type { EvictItem, PendingRequest, ReserveItem } from "../domain/plan.ts";
import { isBorrower, lentGpus } from "./apply-reserve.ts";
import type { Scene } from "./judge.ts";
import type { Ledger } from "./ledger.ts";
import { tenantFlow } from "./queue/flow.ts";
import { planPreemption, type Preemption, type PreemptionContext } from "./preemption.ts";

/** Nothing is ordered while more than this part of the reserve is there or on its way. */
export const REORDER_SHARE = 0.5;
/** Half of a checkpoint's time: of durations over orders of magnitude, who has run for so long is likely to run as long again. */
export const BRIDGE_AFTER_MS = 1_000;
/** Jobs in whose name one cycle evicts. */
const MOST_ORDERS = 4;
/** Searches that one cycle makes for them; when all are in vain, smaller borrowers are not looked at until one of those ends. */
const MOST_SEARCHES = 12;

export interface Stock {
  /** What ought to be free. */
  readonly targetGpus: number;
  /** What is free and kept, or is being freed for it. */
  readonly gpus: number;
}

export const isLow = ({ targetGpus, gpus }: Stock): boolean => gpus < REORDER_SHARE * targetGpus;

export interface BridgePlan {
  readonly evict: readonly EvictItem[];
  readonly reserve: readonly ReserveItem[];
  readonly work: number;
  /** When the next job may be named; infinite when none is too young. */
  readonly wakeAtMs: number;
}

export function planBridge(stock: Stock, scene: Scene, context: PreemptionContext): BridgePlan {
  const { preemption } = context;
  const evict: EvictItem[] = [];
  const reserve: ReserveItem[] = [];
  let work = 0;
  let missing = stock.targetGpus - stock.gpus;
  let searches = 0;
  const { old, wakeAtMs } = borrowersOf(preemption);
  /** What one gets nowhere, none that is alike gets, until somebody has got something. */
  const inVain = new Set<string>();
  for (const lease of old) {
    if (missing < 1 || reserve.length === MOST_ORDERS || searches === MOST_SEARCHES) break;
    const gpus = Math.min(lentGpus(lease), missing);
    const kind = `${tenantFlow(lease)} ${gpus} ${JSON.stringify(lease.terms?.constraints)}`;
    if (inVain.has(kind)) continue;
    searches += 1;
    const plan = planPreemption(asIfAgain(lease, gpus), scene, {
      ...context,
      preemption: withDemand(preemption, lease, gpus),
    });
    work += plan?.work ?? 1;
    if (plan === undefined) {
      inVain.add(kind);
      continue;
    }
    inVain.clear();
    evict.push(...plan.evict);
    reserve.push({ ...plan.reserve, kind: "bridge" });
    missing -= freedBy(plan.evict, preemption);
  }
  return { evict, reserve, work, wakeAtMs };
}

/** Whole gangs: what nobody waits for there is kept for inference, too. */
const freedBy = (evict: readonly EvictItem[], { ledger }: Preemption): number =>
  evict.reduce(
    (sum, { lease, keep = [] }) =>
      sum + gpuCountOf(ledger.leases.get(lease)?.gpus ?? []) - gpuCountOf(keep),
    0,
  );

/** GPUs that evictions under way will free for the reserve. */
export function onOrderGpus({ leases, reservations }: Ledger): number {
  let gpus = 0;
  if (![...(reservations?.values() ?? [])].some(({ kind }) => kind === "bridge")) return gpus;
  for (const { gpus: held, eviction } of leases.values()) {
    if (eviction === undefined || reservations?.get(eviction.forJob)?.kind !== "bridge") continue;
    gpus += gpuCountOf(held) - gpuCountOf(eviction.keep ?? []);
  }
  return gpus;
}

/** Those that hold most first, so that few are stopped for many; then the longest running, which are likely to go on for longest. */
function borrowersOf({ ledger, nowMs }: Preemption): {
  readonly old: readonly Lease[];
  readonly wakeAtMs: number;
} {
  const old: Lease[] = [];
  let wakeAtMs = Infinity;
  for (const lease of ledger.leases.values()) {
    if (!isBorrower(lease) || lentGpus(lease) < 1) continue;
    if (ledger.reservations?.has(lease.jobId) === true) continue;
    const fromMs = lease.grantedAtMs + BRIDGE_AFTER_MS;
    if (fromMs > nowMs) wakeAtMs = Math.min(wakeAtMs, fromMs);
    else old.push(lease);
  }
  old.sort((a, b) => lentGpus(b) - lentGpus(a) || a.token - b.token);
  return { old, wakeAtMs };
}

/** Where its GPUs may be matters to whom they are freed for: jobs like it. */
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

/** The same account, in which the job's flow wants so many GPUs more. */
function withDemand(preemption: Preemption, lease: Lease, gpus: number): Preemption {
  const { due: _due, ...holdings } = preemption.holdings;
  const demand = new Map(holdings.demand);
  const flow = tenantFlow(lease);
  demand.set(flow, (demand.get(flow) ?? 0) + gpus);
  return { ...preemption, holdings: { ...holdings, demand } };
}
