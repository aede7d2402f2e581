/**
 * @file One cycle while it lasts: what it reads, what it has decided so far, and what that leaves for others.
 *
 * The parts of a cycle share it: turns in line (turns.ts), grants (cycle-grants.ts), evictions (cycle-evictions.ts) and reasons
 * (cycle-reasons.ts). Grants and reservations are done to the brain's capacity at once, and undone when the cycle is over.
 */

import { DEFAULT_POLICY } from "../domain/fleet.ts";
import type { JobId } from "../domain/ids.ts";
import { gpuCountOf, type Lease } from "../domain/lease.ts";
import type { PendingReason } from "../domain/pending.ts";
import {
  MAX_PLAN_ITEMS,
  type EvictItem,
  type PendingRequest,
  type Plan,
  type PlanItem,
  type ReserveItem,
} from "../domain/plan.ts";
import type { Brain } from "./brain.ts";
import { openBandwidth } from "./cycle-bandwidth.ts";
import { openLinks, withLinks } from "./cycle-links.ts";
import type { FreshGrant } from "./capacity.ts";
import { openHeads, type Heads } from "./heads.ts";
import type { VainSearch } from "./in-vain.ts";
import type { Scene } from "./judge.ts";
import type { Ledger } from "./ledger.ts";
import { deadPairs } from "./links.ts";
import { HEAD_RULES, type CycleLimits, type Policies } from "./policies.ts";
import type { Preemption } from "./preemption.ts";
import { classFlow, tenantFlow } from "./queue/flow.ts";
import type { QueueFacts } from "./queue/queue-policy.ts";
import { withinReach } from "./reachable-sites.ts";
import type { Telling } from "./reason-holders.ts";
import type { DecidePorts, StartContext } from "./start.ts";

export interface CycleOptions {
  readonly policies: Policies;
  readonly ports: DecidePorts;
  readonly limits: CycleLimits;
  readonly method: Plan["stats"]["method"];
  /** Stop at this job's request and say why it waits. */
  readonly onlyFor?: JobId;
}

/** Pause before what one cycle left out is looked at. */
export const RETRY_MS = 1_000;
/** Requests for which a cycle looks whom to evict. */
const MAX_PREEMPTIONS = 16;

/** Changed by the parts of the cycle alone. */
export interface CycleRun {
  readonly brain: Brain;
  readonly snapshot: Ledger;
  readonly nowMs: number;
  readonly options: CycleOptions;
  readonly scene: Scene;
  readonly context: StartContext;
  readonly heads: Heads;
  readonly items: PlanItem[];
  readonly evict: EvictItem[];
  /** What evictions set apart for their jobs. */
  readonly evictReserve: ReserveItem[];
  readonly grants: FreshGrant[];
  readonly holders: Pick<Lease, "jobId" | "tenant" | "gpus">[];
  readonly telling: Telling;
  /** What was granted before the account of holdings was opened. */
  readonly grantedBefore: { readonly request: PendingRequest; readonly gpus: Lease["gpus"] }[];
  readonly granted: Set<JobId>;
  readonly told: Set<JobId>;
  readonly pending: { request: PlanItem["request"]; reason: PendingReason }[];
  /** Arrays that got a gang and want more. */
  readonly unfilled: { readonly request: PendingRequest; readonly gang: PendingRequest }[];
  readonly isTelling: boolean;
  candidates: number;
  waiting: number;
  wakeAtMs: number;
  /** Somebody might have got a place by eviction, now or when a lease is no longer protected. */
  isShortOfVictims: boolean;
  answer?: PendingReason;
  position?: number;
  preemption?: Preemption;
  preemptionsLeft: number;
  readonly inVain: VainSearch[];
  /** Moves have not been looked for yet. */
  mayMove: boolean;
  gpus?: GpusNow;
}

/** At a version of the capacity. */
interface GpusNow {
  readonly version: number;
  /** Free, and set apart for nobody. */
  readonly open: number;
  /** Set apart for nobody. */
  readonly reservable: number;
}

export function openRun(
  brain: Brain,
  { snapshot, nowMs }: { readonly snapshot: Ledger; readonly nowMs: number },
  asked: CycleOptions,
): CycleRun {
  const holders: Pick<Lease, "jobId" | "tenant" | "gpus">[] = [];
  const links = openLinks(snapshot, { nowMs, granted: holders });
  const place = withinReach(withLinks(asked.policies.place, links), deadPairs(snapshot, nowMs));
  const options = { ...asked, policies: { ...asked.policies, place } };
  const { policies, ports, limits, method } = options;
  const { capacity } = brain;
  const scene: Scene = { capacity, claims: new Map(), nowMs };
  const evict: EvictItem[] = [];
  const bandwidth = openBandwidth(ports, { leases: snapshot.leases, granted: holders });
  return {
    brain,
    snapshot,
    nowMs,
    options,
    scene,
    context: {
      snapshot,
      place: policies.place,
      ports,
      ...(bandwidth && { bandwidth }),
      ...(links && { links }),
    },
    heads: openHeads(capacity, {
      rule: HEAD_RULES[policies.backfill],
      nowMs,
      reservations: snapshot.reservations?.values() ?? [],
      requests: snapshot.requests,
    }),
    items: [],
    evict,
    evictReserve: [],
    grants: [],
    holders,
    telling: { ...scene, snapshot, granted: holders, evict },
    grantedBefore: [],
    granted: new Set(),
    told: new Set(),
    pending: [],
    unfilled: [],
    isTelling: limits.maxReasons > 0,
    candidates: 0,
    waiting: 0,
    wakeAtMs: Infinity,
    isShortOfVictims: false,
    preemptionsLeft: policies.isPreempting === true && method === "decide" ? MAX_PREEMPTIONS : 0,
    inVain: [],
    mayMove: true,
  };
}

export const isFull = ({ items, candidates, options: { limits } }: CycleRun): boolean =>
  items.length >= MAX_PLAN_ITEMS || candidates >= limits.maxCandidates;

export function wakeAt(run: CycleRun, atMs: number): void {
  run.wakeAtMs = Math.min(run.wakeAtMs, atMs);
}

/** Whether heads lend what waits idle for them. */
export const isLending = ({ snapshot, options: { policies, method } }: CycleRun): boolean =>
  policies.lends === true &&
  method === "decide" &&
  (snapshot.shape.policy ?? DEFAULT_POLICY).isPreempting;

/** Asked for with every request, and the same from one change to the next. */
export function gpusNow(run: CycleRun): GpusNow {
  const { capacity } = run.brain;
  if (run.gpus?.version === capacity.version) return run.gpus;
  let open = 0;
  let reservable = 0;
  for (const { tallies } of capacity.pools) {
    open += tallies.open.gpus;
    reservable += tallies.unreserved.gpus;
  }
  return (run.gpus = { version: capacity.version, open, reservable });
}

/** Who runs how much, with what this cycle has granted so far. */
export function factsOf({ brain, items, snapshot }: CycleRun): QueueFacts {
  const runningGpus = new Map(brain.runningGpus);
  for (const item of items) {
    const request = snapshot.requests.get(item.request.jobId);
    if (request === undefined) continue;
    for (const flow of [classFlow(request), tenantFlow(request)])
      runningGpus.set(flow, (runningGpus.get(flow) ?? 0) + gpuCountOf(item.gpus));
  }
  return { ...(snapshot.service !== undefined && { service: snapshot.service }), runningGpus };
}
