/**
 * @file Which running gangs to move so that one that waits gets the hosts it needs: proposed with its price, and whether it pays.
 *
 * For a request for which enough GPUs of a type are free, only not together. Moving is an eviction after which the moved job goes on at once:
 * it writes a checkpoint, stops, asks again, and finds its new GPUs set apart for it (`keep`). So nobody loses its turn or its share,
 * and no right to preempt is needed, only that the job may be preempted at all and has run for its protected time. Opening hosts by
 * sending jobs back into the queue is what preemption.ts does, for those to whom it is due.
 *
 *   price = Σ over moved gangs: GPUs · (work since its last checkpoint or the checkpoint's cost + MOVE_MS)
 *           + GPUs · time left · the part of its throughput that its new place takes from it            GPU-seconds
 *   gain  = GPUs of the request · its throughput there · the time that it would else wait               GPU-seconds
 *   It pays when the gain is PAYS_TIMES the price, because a forecast of waits is rough.
 *
 * Trials: for gangs that a host can hold, per host the cheapest gangs that make room there; for others per cluster. In each the placement
 * policy chooses the place of the request and, after that, of every moved gang, the largest first; a trial fails where one finds
 * none, or is placed as `apply` would not let it. The trial with the most gain less price wins, then the one with fewer moves, then the first.
 * Who would only move what pays (a cycle) says so: then a trial ends as soon as its price is known to be too high for any gain, mostly
 * before anything is placed.
 * Why there are no loops: a request is the cause of one round of moves at most, because its place is set apart for it from then on, and
 * a moved gang is protected anew. Cost: O(leases · log leases), then two to `MAX_MOVES` placements each of `MAX_TRIALS` trials.
 */

import { DEFAULT_POLICY } from "../domain/fleet.ts";
import { gpuCountOf, popCount, type HostGpus, type Lease } from "../domain/lease.ts";
import type { EvictItem, PendingRequest, ReserveItem } from "../domain/plan.ts";
import { spentBudget } from "./apply-preempt.ts";
import { largestAt, noteGrant, noteLease, undoGrant, type FreshGrant } from "./capacity.ts";
import { checkGrant } from "./feasibility.ts";
import { UNKNOWN_END_MS } from "./host-pools.ts";
import { freeGpus, prospectsOf, type Scene } from "./judge.ts";
import type { ClusterOffer } from "./placement/placement-policy.ts";
import { throughputOf } from "./placement/spread.ts";
import type { PreemptionContext } from "./preemption.ts";
import { sharedGpus } from "./reserved.ts";
import { mostThroughput, roomsFor } from "./room-bounds.ts";
import { demandOf, freeHosts } from "./start.ts";
import { labelled } from "./usage.ts";
import { isEvictable, lossOf } from "./evictable.ts";

/** From the end of its checkpoint until a moved gang works again. */
export const MOVE_MS = 10_000;
/** A gain must be so many times its price. */
export const PAYS_TIMES = 2;
/** Neither a wait nor the rest of a run is foreseen for longer. */
const HORIZON_MS = 3_600_000;
const MAX_MOVES = 8;
const MAX_TRIALS = 6;

export interface Move {
  readonly lease: Lease;
  readonly to: readonly HostGpus[];
  readonly lostGpuSeconds: number;
}

export interface MoveProposal {
  /** Where the request would lie after the moves. */
  readonly gpus: readonly HostGpus[];
  readonly moves: readonly Move[];
  readonly priceGpuSeconds: number;
  readonly gainGpuSeconds: number;
  readonly doesPay: boolean;
  /** What a plan says to make the moves; evictions are applied after reservations. */
  readonly evict: readonly EvictItem[];
  readonly reserve: readonly ReserveItem[];
}

export interface MoveSearch extends PreemptionContext {
  /** How long the request would wait if nothing were moved. */
  readonly waitMs: number;
  /** Moves that do not pay are not looked for. */
  readonly isOnlyPaying?: boolean;
}

/** For a request that waits, with the capacity as it is, which is left as it was. Undefined where no moves would help. */
export function proposeMoves(
  request: PendingRequest,
  scene: Scene,
  search: MoveSearch,
): MoveProposal | undefined {
  const { capacity } = scene;
  const { ledger, nowMs, taken } = search.preemption;
  const wanted = request.gang.gpus;
  const isEnough = prospectsOf(request, scene).some(
    ({ type, room }) => Math.min(freeGpus(capacity, type), room) >= wanted,
  );
  if (!isEnough || request.slots !== undefined) return undefined;
  const movable = [...ledger.leases.values()].filter(
    (lease) =>
      !taken.has(lease.id) &&
      lease.jobId !== request.jobId &&
      isEvictable(lease, nowMs) &&
      !ledger.requests.has(lease.jobId) &&
      ledger.reservations?.has(lease.jobId) !== true,
  );
  const trials = trialsOf(request, movable, scene).slice(0, MAX_TRIALS);
  if (trials.length === 0) return undefined;
  const trial = { request, scene, search, waitS: Math.min(search.waitMs, HORIZON_MS) / 1_000 };
  let best: MoveProposal | undefined;
  for (const leases of trials) {
    const found = tryMoves(trial, leases);
    if (found === undefined || (search.isOnlyPaying === true && !found.doesPay)) continue;
    if (best === undefined || isBetter(found, best)) best = found;
  }
  return best;
}

function isBetter(a: MoveProposal, b: MoveProposal): boolean {
  const net = ({ gainGpuSeconds, priceGpuSeconds }: MoveProposal): number =>
    gainGpuSeconds - priceGpuSeconds;
  return net(a) > net(b) || (net(a) === net(b) && a.moves.length < b.moves.length);
}

/** Sets of leases without which the request may fit, the cheapest first. */
function trialsOf(
  { gang: { gpus: wanted } }: PendingRequest,
  movable: readonly Lease[],
  { capacity, nowMs }: Scene,
): readonly (readonly Lease[])[] {
  const areas = new Map<string, Area>();
  const inArea = (key: string): Area => {
    const area = areas.get(key) ?? { free: 0, gains: new Map<Lease, number>() };
    areas.set(key, area);
    return area;
  };
  for (const host of capacity.hosts.values()) {
    if (host.hindrance !== undefined) continue;
    if (host.gpuCount >= wanted) inArea(host.id).free += popCount(host.freeMask);
    inArea(host.pool.cluster.id).free += popCount(host.freeMask);
  }
  for (const lease of movable) {
    for (const { host: id, mask } of lease.gpus) {
      const host = capacity.hosts.get(id);
      if (host === undefined || host.hindrance !== undefined) continue;
      const gain = popCount(mask & ~host.reservedMask);
      for (const key of host.gpuCount >= wanted
        ? [id, host.pool.cluster.id]
        : [host.pool.cluster.id]) {
        const { gains } = inArea(key);
        gains.set(lease, (gains.get(lease) ?? 0) + gain);
      }
    }
  }
  const sets = [...areas.values()].flatMap(({ free, gains }) => {
    if (free >= wanted) return [];
    const perGpu = (lease: Lease): number => moveLoss(lease, nowMs) / (gains.get(lease) ?? 1);
    const leases: Lease[] = [];
    let open = wanted - free;
    const inOrder = [...gains.keys()].sort((a, b) => perGpu(a) - perGpu(b) || b.token - a.token);
    for (const lease of inOrder) {
      if (open <= 0 || leases.length >= MAX_MOVES) break;
      leases.push(lease);
      open -= gains.get(lease) ?? 0;
    }
    const loss = leases.reduce((sum, lease) => sum + moveLoss(lease, nowMs), 0);
    return open <= 0 ? [{ leases, loss }] : [];
  });
  return sets.sort((a, b) => a.loss - b.loss).map(({ leases }) => leases);
}

/** A host, or a cluster. */
interface Area {
  free: number;
  /** GPUs of it that each lease would open. */
  readonly gains: Map<Lease, number>;
}

const moveLoss = (lease: Lease, nowMs: number): number =>
  lossOf(lease, nowMs) + (gpuCountOf(lease.gpus) * MOVE_MS) / 1_000;

interface Trial {
  readonly request: PendingRequest;
  readonly scene: Scene;
  readonly search: MoveSearch;
  /** Until the request would start if nothing were moved; asked for with all leases on the capacity. */
  readonly waitS: number;
}

/** On the capacity without these leases; every change is taken back. */
function tryMoves(trial: Trial, leases: readonly Lease[]): MoveProposal | undefined {
  const { request, scene } = trial;
  const { capacity } = scene;
  for (const lease of leases) noteLease(capacity, lease, undefined);
  const gpus = mayBeFound(trial, leases) ? placed(request, trial) : undefined;
  const moved = leases.filter((lease) => sharedGpus(lease.gpus, gpus ?? []).length > 0);
  const stay = leases.filter((lease) => !moved.includes(lease));
  for (const lease of stay) noteLease(capacity, undefined, lease);
  const grants: FreshGrant[] = [];
  const moves: Move[] = [];
  if (gpus !== undefined) hold(request, gpus);
  if (gpus !== undefined && mayPay(trial, gpus, moved)) {
    for (const lease of [...moved].sort(
      (a, b) => gpuCountOf(b.gpus) - gpuCountOf(a.gpus) || a.token - b.token,
    )) {
      const again = asRequest(lease, trial);
      const to = again && placed(again, trial);
      if (again === undefined || to === undefined) break;
      hold(again, to);
      moves.push({ lease, to, lostGpuSeconds: moveLoss(lease, scene.nowMs) });
    }
  }
  for (const grant of grants) undoGrant(capacity, grant);
  for (const lease of moved) noteLease(capacity, undefined, lease);
  const isWhole = gpus !== undefined && moved.length > 0 && moves.length === moved.length;
  return isWhole ? proposal(trial, gpus, moves) : undefined;

  function hold({ jobId, tenant, constraints }: PendingRequest, held: readonly HostGpus[]): void {
    const label = labelled(jobId, constraints.antiAffinity);
    const grant = { name: `move ${jobId}`, tenant, gpus: held, endAtMs: UNKNOWN_END_MS, ...label };
    noteGrant(capacity, grant);
    grants.push(grant);
  }
}

/** Whether the request and the leases that are off the capacity may find places, by what clusters have free, so that it pays where it has to. */
function mayBeFound(trial: Trial, leases: readonly Lease[]): boolean {
  const rooms = roomsFor(trial.request, trial.scene);
  // One of them is moved at least, or nothing is won.
  return rooms.some(({ place, throughput }) =>
    leases.some((lease) => isWorth(trial, throughput, leastLoss(trial, lease, place))),
  );
}

/** The same when the request has its GPUs, which are on the capacity. */
function mayPay(trial: Trial, gpus: readonly HostGpus[], moved: readonly Lease[]): boolean {
  const price = moved.reduce((sum, lease) => sum + leastLoss(trial, lease), 0);
  return isWorth(trial, throughputOf(gpus, trial.scene.capacity.spread), price);
}

/** It can be done at all, and pays where it has to. */
const isWorth = (trial: Trial, throughput: number, price: number): boolean =>
  price < Infinity &&
  (trial.search.isOnlyPaying !== true || doesPay(gainOf(trial, throughput), price));

const doesPay = (gain: number, price: number): boolean => gain >= PAYS_TIMES * price;

/** What the move of a lease loses at least where the request takes its GPUs out of `taken`; infinite where it finds no room. */
function leastLoss(trial: Trial, lease: Lease, taken?: ClusterOffer): number {
  const { request, scene } = trial;
  const again = asRequest(lease, trial);
  const most =
    again && mostThroughput(again, scene, taken && { ...taken, gpus: request.gang.gpus });
  return most === undefined
    ? Infinity
    : moveLoss(lease, scene.nowMs) + slowerBy(lease, most, scene);
}

const gainOf = ({ request, waitS }: Trial, throughput: number): number =>
  request.gang.gpus * throughput * waitS;

/** GPU-seconds that a moved gang loses until its end because its new place lets it reach only this part of its peak. */
function slowerBy(lease: Lease, throughput: number, { capacity, nowMs }: Scene): number {
  const slowdown = 1 - throughput / throughputOf(lease.gpus, capacity.spread);
  return gpuCountOf(lease.gpus) * (leftMs(lease, nowMs) / 1_000) * Math.max(0, slowdown);
}

/** All that it asks for, or nothing. */
function placed(
  request: PendingRequest,
  { scene, search: { place, preemption } }: Trial,
): readonly HostGpus[] | undefined {
  const { capacity, nowMs } = scene;
  const wanted = request.gang.gpus;
  const prospects = prospectsOf(request, scene).filter(
    ({ type, room }) => Math.min(largestAt(capacity, type, "now"), room) >= wanted,
  );
  if (prospects.length === 0) return undefined;
  const demand = demandOf(request, wanted, capacity);
  const { gpus } = place(demand, freeHosts(prospects), capacity);
  if (gpus === undefined) return undefined;
  const { index, usage, reserved } = capacity;
  const terms = { index, usage, reserved, standings: preemption.ledger.hosts, nowMs };
  return checkGrant(request, { gpus }, terms) === undefined ? gpus : undefined;
}

/** As the job of the lease will ask again: for what it has. */
function asRequest(lease: Lease, { scene }: Trial): PendingRequest | undefined {
  const { jobId, runId, seq, tenant, class: jobClass, terms } = lease;
  if (terms === undefined) return undefined;
  const gpus = gpuCountOf(lease.gpus);
  return {
    ...terms,
    jobId,
    runId,
    seq: seq + 1,
    name: jobId,
    tenant,
    class: jobClass,
    gang: { ...terms.gang, gpus, min: Math.min(terms.gang.min, gpus) },
    requestedAtMs: scene.nowMs,
    arrival: 0,
  };
}

function proposal(
  trial: Trial,
  gpus: readonly HostGpus[],
  moves: readonly Move[],
): MoveProposal | undefined {
  const { request, scene, search } = trial;
  const { ledger, nowMs, spent } = search.preemption;
  const lost = moves.reduce((sum, { lostGpuSeconds }) => sum + lostGpuSeconds, 0);
  const { tenant, jobId } = request;
  const budget = (ledger.shape.policy ?? DEFAULT_POLICY).preemptionBudgetGpuSeconds;
  const before = spentBudget(ledger.evictions ?? [], tenant, nowMs) + (spent.get(tenant) ?? 0);
  if (before + lost > budget) return undefined;
  const { spread } = scene.capacity;
  const slower = moves.reduce(
    (sum, { lease, to }) => sum + slowerBy(lease, throughputOf(to, spread), scene),
    0,
  );
  const gain = gainOf(trial, throughputOf(gpus, spread));
  const price = lost + slower;
  return {
    gpus,
    moves,
    priceGpuSeconds: price,
    gainGpuSeconds: gain,
    doesPay: doesPay(gain, price),
    evict: moves.map(({ lease, lostGpuSeconds }) => ({
      kind: "evict",
      lease: lease.id,
      forJob: jobId,
      lostGpuSeconds,
      reason: `moved, so that ${jobId} finds its ${gpuCountOf(gpus)} GPUs together; ${Math.round(price)} GPU-seconds are lost, ${Math.round(gain)} won`,
    })),
    reserve: [
      { jobId, gpus, kind: "preemption" },
      ...moves.map(({ lease, to }): ReserveItem => ({
        jobId: lease.jobId,
        gpus: to,
        kind: "keep",
      })),
    ],
  };
}

/** Until its time limit; what nobody limits is taken to last for the horizon. */
function leftMs({ grantedAtMs, terms }: Lease, nowMs: number): number {
  const limitMs = terms?.timeLimitMs;
  if (limitMs === undefined) return HORIZON_MS;
  return Math.min(HORIZON_MS, Math.max(0, grantedAtMs + limitMs - nowMs));
}
