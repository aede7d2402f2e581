/**
 * @file Which running gangs to move so that a waiting one gets the hosts it needs: proposed with the price, and whether it pays.
 *
 * For a request for which enough GPUs of a type are free, only not together. A move is an eviction after which the moved job goes on at once:
 * it writes a checkpoint, stops, asks again, and finds its new GPUs reserved for it (`keep`). So no job loses its place in the queue or its
 * share, and no right to preempt is needed, only that the job may be preempted at all and has run for its protected time. Evictions that
 * send jobs back into the queue are the business of plan-preemption.ts, for requests that are due.
 *
 *   price = Σ over moved gangs: GPUs · (work since its last checkpoint or the checkpoint's cost + MOVE_MS)
 *           + GPUs · time left · the part of its throughput that its new place takes from it            GPU-seconds
 *   gain  = GPUs of the request · its throughput there · the time that it would wait otherwise          GPU-seconds
 *   It pays when the gain is PAYS_TIMES the price, because a forecast of waits is rough.
 *
 * Trials: for gangs that a host can hold, per host the cheapest gangs that make room there; for others per cluster. In each trial the placement
 * policy chooses the place of the request and, after that, of every moved gang, the largest first; the trial fails where a gang finds
 * no place, or one that `apply` would refuse. The trial with the most gain less price wins, then the one with fewer moves, then the first.
 * Where a bandwidth model serves, it chooses each place once it is known which gangs move.
 * A cycle makes only moves that pay and says so: then a trial ends as soon as its price is known to be too high for the time that the request
 * would wait, mostly before anything is taken off the capacity.
 * Why there are no loops: a request causes one round of moves at most, because its place is reserved for it from then on, and
 * a moved gang is protected anew. Cost: O(leases · log leases), then two to `MAX_MOVES` placements each of `MAX_TRIALS` trials.
 */

import { gpuCountOf, popCount, type HostGpus, type Lease } from "../../domain/lease/lease.ts";
import type { EvictItem, PendingRequest, ReserveItem } from "../../domain/lease/plan.ts";
import type { FreshGrant } from "../capacity/capacity-changes.ts";
import { largestAt } from "../capacity/capacity.ts";
import { tryOut } from "../capacity/trial.ts";
import { checkGrant } from "../ledger/rules/grant-check.ts";
import { UNKNOWN_END_MS } from "../capacity/host-pools.ts";
import { freeGpus, fitsOf, type CycleView } from "../admission/feasibility.ts";
import type { ClusterOffer } from "../placement/placement-policy.ts";
import { throughputOf } from "../placement/spread.ts";
import type { PlacePolicy } from "../placement/place-policy.ts";
import type { PreemptionContext } from "./plan-preemption.ts";
import { isSpared } from "../ledger/rules/queue-holds.ts";
import { sharedGpus } from "../ledger/rules/reservation-index.ts";
import { mostThroughput, placementBounds } from "./placement-bounds.ts";
import { demandOf, freeHosts } from "../admission/try-start.ts";
import { labelled, needing } from "../ledger/rules/usage.ts";
import { isAffordable } from "./account.ts";
import { isEvictable, lossOf } from "./eviction-cost.ts";

/** From the end of its checkpoint until a moved gang works again. */
const MOVE_MS = 10_000;
/** A gain must be this many times its price. */
export const PAYS_TIMES = 2;
/** Waits and the rests of runs are cut at this. */
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
  /** The items of a plan that makes the moves. */
  readonly evict: readonly EvictItem[];
  readonly reserve: readonly ReserveItem[];
}

export interface MoveSearch extends PreemptionContext {
  /** How long the request would wait if nothing were moved. */
  readonly waitMs: number;
  /** Leaves out moves that do not pay. */
  readonly isOnlyPaying?: boolean;
}

/** For a waiting request. The capacity is left as it was. Undefined where no moves would help. */
export function proposeMoves(
  request: PendingRequest,
  view: CycleView,
  search: MoveSearch,
): MoveProposal | undefined {
  const { capacity } = view;
  const { ledger, nowMs, taken } = search.preemption;
  const wanted = request.gang.gpus;
  const isEnough = fitsOf(request, view).some(
    ({ type, room }) => Math.min(freeGpus(capacity, type), room) >= wanted,
  );
  if (!isEnough || request.slots !== undefined) return undefined;
  const movable = [...ledger.leases.values()].filter(
    (lease) =>
      !taken.has(lease.id) &&
      lease.jobId !== request.jobId &&
      isEvictable(lease, nowMs) &&
      !isSpared(ledger.holds, lease) &&
      !ledger.requests.has(lease.jobId) &&
      ledger.reservations?.has(lease.jobId) !== true,
  );
  let waitS: number | undefined;
  const trial: Trial = {
    request,
    view,
    search,
    waitS: () => (waitS ??= Math.min(search.waitMs, HORIZON_MS) / 1_000),
  };
  let best: MoveProposal | undefined;
  for (const leases of trialsOf(request, movable, view).slice(0, MAX_TRIALS)) {
    const found = mayPay(trial, leases) ? tryMoves(trial, leases) : undefined;
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
  { capacity, nowMs }: CycleView,
): readonly (readonly Lease[])[] {
  const areas = new Map<string, Area>();
  const inArea = (key: string): Area => {
    const area = areas.get(key) ?? { free: 0, gains: new Map<Lease, number>() };
    areas.set(key, area);
    return area;
  };
  for (const host of capacity.hosts.values()) {
    if (host.serviceMask === 0) continue;
    if (popCount(host.serviceMask) >= wanted) inArea(host.id).free += popCount(host.freeMask);
    inArea(host.pool.cluster.id).free += popCount(host.freeMask);
  }
  for (const lease of movable) {
    for (const { host: id, mask } of lease.gpus) {
      const host = capacity.hosts.get(id);
      if (host === undefined || host.serviceMask === 0) continue;
      const gain = popCount(mask & host.serviceMask & ~host.reservedMask);
      for (const key of popCount(host.serviceMask) >= wanted
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
  readonly view: CycleView;
  readonly search: MoveSearch;
  /** Until the request would start without moves; to be asked with all leases on the capacity. */
  readonly waitS: () => number;
}

/** At least one of them moves, or nothing is won. The cheapest necessary conditions: nothing is taken off the capacity for them. */
function mayPay(trial: Trial, leases: readonly Lease[]): boolean {
  const { request, view, search } = trial;
  const least = leases.reduce((loss, each) => Math.min(loss, moveLoss(each, view.nowMs)), Infinity);
  return (
    isAffordable(search.preemption, request.tenant, least) &&
    isWorth(trial, gainOf(trial, MOST_THROUGHPUT), least)
  );
}

const MOST_THROUGHPUT = 1;

/** On the capacity without these leases; every change is taken back. */
function tryMoves(trial: Trial, leases: readonly Lease[]): MoveProposal | undefined {
  const { request, view } = trial;
  const { capacity } = view;
  const { place, placeLater = place } = trial.search;
  const first = tryOut(capacity, ({ removeLease }) => {
    for (const lease of leases) removeLease(lease);
    return mayBeFound(trial, leases) ? placed(request, trial, place) : undefined;
  });
  if (first === undefined) return undefined;
  const inTheWay = (gpus: readonly HostGpus[]): readonly Lease[] =>
    leases.filter((lease) => sharedGpus(lease.gpus, gpus).length > 0);
  const gpus = placeLater === place ? first : fasterOf(trial, first, inTheWay(first));
  const moved = inTheWay(gpus);
  if (moved.length === 0) return undefined;
  const leastPrice = tryOut(capacity, ({ removeLease, addGrant }) => {
    for (const lease of moved) removeLease(lease);
    addGrant(grantOf(request, gpus));
    return moved.reduce((sum, lease) => sum + leastLoss(trial, lease), 0);
  });
  const throughput = throughputOf(gpus, capacity.spread);
  if (!isWorth(trial, gainOf(trial, throughput), leastPrice)) return undefined;
  const moves = tryOut(capacity, ({ removeLease, addGrant }) => {
    for (const lease of moved) removeLease(lease);
    addGrant(grantOf(request, gpus));
    const found: Move[] = [];
    for (const lease of [...moved].sort(
      (a, b) => gpuCountOf(b.gpus) - gpuCountOf(a.gpus) || a.token - b.token,
    )) {
      const again = asRequest(lease, trial);
      const to = again && placed(again, trial, placeLater);
      if (again === undefined || to === undefined) return undefined;
      addGrant(grantOf(again, to));
      found.push({ lease, to, lostGpuSeconds: moveLoss(lease, view.nowMs) });
    }
    return found;
  });
  return moves && proposal(trial, gpus, moves);
}

/** A faster place for the request that makes no other lease move. */
function fasterOf(
  trial: Trial,
  first: readonly HostGpus[],
  moved: readonly Lease[],
): readonly HostGpus[] {
  const { request, view, search } = trial;
  return tryOut(view.capacity, ({ removeLease }) => {
    for (const lease of moved) removeLease(lease);
    const gpus = placed(request, trial, search.placeLater ?? search.place);
    const isMoving = moved.some((lease) => sharedGpus(lease.gpus, gpus ?? []).length > 0);
    return gpus !== undefined && isMoving ? gpus : first;
  });
}

function grantOf(
  { jobId, tenant, constraints }: PendingRequest,
  gpus: readonly HostGpus[],
): FreshGrant {
  return {
    name: `move ${jobId}`,
    tenant,
    gpus,
    endAtMs: UNKNOWN_END_MS,
    ...labelled(jobId, constraints.antiAffinity),
    ...needing(constraints.resources),
  };
}

/** Whether, by counts, the request and one of the removed leases may find places at a price that pays. */
function mayBeFound(trial: Trial, leases: readonly Lease[]): boolean {
  const bounds = placementBounds(trial.request, trial.view);
  // At least one of them moves, or nothing is won.
  return bounds.some(({ place, throughput }) => {
    const mostGain = gainOf(trial, throughput);
    return leases.some((lease) => isWorth(trial, mostGain, leastLoss(trial, lease, place)));
  });
}

/** Whether the moves are possible, and pay where they have to. */
const isWorth = (trial: Trial, gain: number, price: number): boolean =>
  price < Infinity && (trial.search.isOnlyPaying !== true || doesPay(gain, price));

const doesPay = (gain: number, price: number): boolean => gain >= PAYS_TIMES * price;

/** The least loss of a lease's move where the request takes its GPUs out of `place`; infinite where the lease finds no place. */
function leastLoss(trial: Trial, lease: Lease, place?: readonly ClusterOffer[]): number {
  const { request, view } = trial;
  const again = asRequest(lease, trial);
  const taken = place && { place, gpus: request.gang.gpus };
  const most = again && mostThroughput(again, view, taken);
  return most === undefined ? Infinity : moveLoss(lease, view.nowMs) + slowerBy(lease, most, view);
}

const gainOf = ({ request, waitS }: Trial, throughput: number): number =>
  request.gang.gpus * throughput * waitS();

/** GPU-seconds that a moved gang loses until its end because its new place has only this throughput. */
function slowerBy(lease: Lease, throughput: number, { capacity, nowMs }: CycleView): number {
  const slowdown = 1 - throughput / throughputOf(lease.gpus, capacity.spread);
  return gpuCountOf(lease.gpus) * (leftMs(lease, nowMs) / 1_000) * Math.max(0, slowdown);
}

/** The whole gang, or nothing. */
function placed(
  request: PendingRequest,
  { view, search: { preemption } }: Trial,
  place: PlacePolicy,
): readonly HostGpus[] | undefined {
  const { capacity, nowMs } = view;
  const wanted = request.gang.gpus;
  const clusterFits = fitsOf(request, view).filter(
    ({ type, room }) => Math.min(largestAt(capacity, type, "now"), room) >= wanted,
  );
  if (clusterFits.length === 0) return undefined;
  const demand = demandOf(request, wanted, view);
  const { gpus } = place(demand, freeHosts(clusterFits, capacity), capacity);
  if (gpus === undefined) return undefined;
  const { index, usage, reserved } = capacity;
  const terms = { index, usage, reserved, hostStatuses: preemption.ledger.hosts, nowMs };
  return checkGrant(request, { gpus }, terms) === undefined ? gpus : undefined;
}

/** The request that the job of the lease will make: for as many GPUs as it has. */
function asRequest(lease: Lease, { view }: Trial): PendingRequest | undefined {
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
    requestedAtMs: view.nowMs,
    arrival: 0,
  };
}

function proposal(
  trial: Trial,
  gpus: readonly HostGpus[],
  moves: readonly Move[],
): MoveProposal | undefined {
  const { request, view, search } = trial;
  const lost = moves.reduce((sum, { lostGpuSeconds }) => sum + lostGpuSeconds, 0);
  const { tenant, jobId } = request;
  if (!isAffordable(search.preemption, tenant, lost)) return undefined;
  const { spread } = view.capacity;
  const slower = moves.reduce(
    (sum, { lease, to }) => sum + slowerBy(lease, throughputOf(to, spread), view),
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

/** Until its time limit; a lease without one is taken to last for the horizon. */
function leftMs({ grantedAtMs, terms }: Lease, nowMs: number): number {
  const limitMs = terms?.timeLimitMs;
  if (limitMs === undefined) return HORIZON_MS;
  return Math.min(HORIZON_MS, Math.max(0, grantedAtMs + limitMs - nowMs));
}
