/**
 * @file Which leases to evict so that a waiting request can start: first its place after the eviction, then the evictions.
 *
 * The request must have a right to preempt (victim-choice.ts: which victims, and by which right). Victims are removed in a trial on the cycle's
 * own capacity, and the usual feasibility check and placement policy decide where the gang would lie; a victim without GPUs in that place
 * is spared. Two searches:
 *   one host     for gangs that a host can hold: per host the cheapest victims that make room there; the cheapest host wins.
 *   any hosts    for the others, and where no host does: victims are removed in order of cost until the gang fits.
 * Where a bandwidth model serves, the gang's place is chosen anew for bandwidth once it is settled who gives way, so nobody else does.
 * A victim that may shrink keeps the rest of its GPUs, if that is an acceptable size; the others give up all.
 * Evictions stay within the tenant's budget, and a place that `apply` would refuse causes none.
 *
 * Why there are no loops. Let S be the sum over flows of their holdings above their dues, and B the sum over quotas of holdings
 * above them. By right of due, A takes k GPUs from flows that are not below their dues after, and is not above its own: S falls by k and
 * B does not grow. By right of reclaim B falls by the borrowed part of the k, 1 at least. So (B, S) falls with every eviction, and evictions
 * alone come to an end. An evicted job asks for as much as it had: with that it would be above its due (or quota) again, so its request
 * evicts no lease until shares change. Dues change with arrivals and ends alone; so each request causes one round of evictions at most.
 * Cost: O(hosts + leases on them) a request, O(k log k) for k victims where no single host does; at most `MAX_RELEASED` leases and `MAX_TRIALS` places.
 */

import type { HostId, LeaseId } from "../../domain/values/ids.ts";
import type { KeepersOf } from "../../domain/lease/kept-weights.ts";
import { gpuCountOf, popCount, type HostGpus } from "../../domain/lease/lease.ts";
import type { EvictItem, PendingRequest, ReserveItem } from "../../domain/lease/plan.ts";
import { lowestBits } from "../../lib/bits.ts";
import { preemptionOf } from "../ledger/apply/apply-evictions.ts";
import { largestAt, needIn } from "../capacity/capacity.ts";
import { withLenders, withoutLenders } from "../capacity/stranded-gpus.ts";
import { tryOut } from "../capacity/trial.ts";
import { cheapestHosts, type HostSearch } from "./cheapest-hosts.ts";
import {
  canShrink,
  checkGrant,
  isAcceptableSize,
  largestAcceptable,
} from "../ledger/rules/grant-check.ts";
import { UNKNOWN_END_MS, type PoolHost } from "../capacity/host-pools.ts";
import { freeGpus, fitsOf, type CycleView } from "../admission/feasibility.ts";
import type { PlacePolicy } from "../placement/place-policy.ts";
import { floorOf, isWorthIt } from "../admission/gang-size.ts";
import { needing } from "../ledger/rules/usage.ts";
import { sharedGpus, withoutGpus } from "../ledger/rules/reservation-index.ts";
import { asFree, demandOf, freeHosts, keepersFor } from "../admission/try-start.ts";
import { isAffordable, noteEvicted, type PreemptionAccount } from "./account.ts";
import type { Victim } from "./candidate-index.ts";
import { mostWorthIn } from "./placement-bounds.ts";
import { leastLossFor, mayLieWithout } from "./search-bounds.ts";
import type { ServiceOrder } from "../queue/service-order.ts";
import { victimsByOrder } from "./order-victims.ts";
import { chooseVictims, dueRoom, type Right, type VictimChoice } from "./victim-choice.ts";

/** Leases that one search removes. */
const MAX_RELEASED = 512;
/** Placements that one search makes. */
const MAX_TRIALS = 6;

export interface PreemptionContext {
  readonly preemption: PreemptionAccount;
  /** Decides who gives way. */
  readonly place: PlacePolicy;
  /** Decides on which of the GPUs that they give up, and of the free ones, the gang will lie; `place` when absent. */
  readonly placeLater?: PlacePolicy;
  /** `DEFAULT_RIGHTS` when absent. */
  readonly rights?: readonly Right[];
  /** Of hosts on which victims lose the same, one that keeps what the request serves is taken. */
  readonly keepersOf?: KeepersOf;
  /** Without it no job evicts another by right of order. */
  readonly order?: ServiceOrder;
  /** Takes the request's own reservation off the capacity while places are tried; absent where it is off already, or there is none. */
  readonly alone?: <Found>(attempt: () => Found) => Found;
  /** Masks of GPUs that requests behind this one have reserved, and leave to it: what it does not take stays theirs, so no victim keeps it. */
  readonly behind?: ReadonlyMap<HostId, number>;
}

export const DEFAULT_RIGHTS: readonly Right[] = ["due", "reclaim"];

export interface PreemptionPlan {
  readonly evict: readonly EvictItem[];
  readonly reserve: ReserveItem;
  readonly work: number;
}

/**
 * For a request that cannot start; of an array's, one gang. The capacity is left as it was. The plan
 * counts as made: the account has it, and later requests of the cycle are judged after it.
 */
export function planPreemption(
  request: PendingRequest,
  view: CycleView,
  context: PreemptionContext,
): PreemptionPlan | undefined {
  for (const right of context.rights ?? DEFAULT_RIGHTS) {
    const plan = planBy(right, request, { view, context });
    if (plan !== undefined) return plan;
  }
  return undefined;
}

function planBy(
  right: Right,
  request: PendingRequest,
  { view, context }: { readonly view: CycleView; readonly context: PreemptionContext },
): PreemptionPlan | undefined {
  const { preemption } = context;
  const { holdings, nowMs, victims } = preemption;
  // No tenant holds GPUs under a quota, so none has borrowed.
  if (right === "reclaim" && holdings.quota.size === 0) return undefined;
  const most = right === "due" ? dueRoom(request, holdings) : Infinity;
  const wanted = largestAcceptable(request, most, nowMs);
  if (wanted === undefined || wanted < 1) return undefined;
  const choice = choiceBy(right, request, { wanted, view, context });
  if (choice === undefined || choice.isEmpty()) return undefined;
  const { ordered, lossOf } = choice;
  const leastLoss = leastLossFor(request, wanted, { victims: ordered(), lossOf, ...view });
  if (leastLoss === Infinity || !isAffordable(preemption, request.tenant, leastLoss))
    return undefined;
  if (!mayLieWithout(request, wanted, { victims: ordered(), view })) return undefined;
  const keepers = (): ReadonlySet<HostId> | undefined => keepersFor(request, context.keepersOf);
  const search = { request, wanted, view, context, choice, book: victims, keepers };
  const { alone } = context;
  const found = alone === undefined ? searchPlace(search) : alone(() => searchPlace(search));
  if (found === undefined || !isWorthWaiting(request, found.gpus, view)) return undefined;
  const { gpus, work } = found;
  const evict = found.victims.map((victim): EvictItem => {
    const keep = found.keeps.get(victim.lease.id);
    const lostGpuSeconds = choice.lossOf(victim);
    return {
      kind: "evict",
      lease: victim.lease.id,
      forJob: request.jobId,
      ...(keep !== undefined && { keep }),
      lostGpuSeconds,
      reason: `${whyOf(right, request, wanted)}; ${lostGpuSeconds} GPU-seconds are lost, the least that makes room`,
    };
  });
  const lost = evict.reduce((sum, { lostGpuSeconds }) => sum + lostGpuSeconds, 0);
  if (!isAffordable(preemption, request.tenant, lost)) return undefined;
  noteEvicted(preemption, { by: request, gpus, lost, leases: leasesOf(found) });
  return { evict, reserve: { jobId: request.jobId, gpus, kind: "preemption" }, work };
}

/**
 * Whether any lease could be evicted by one of these rights, however many GPUs were free: where not, no search finds a place, whatever is taken
 * off the capacity. Cost: O(victims' kinds) a right.
 */
export const mayEvictBy = (
  rights: readonly Exclude<Right, "order">[],
  request: PendingRequest,
  { holdings, nowMs, taken, victims: book }: PreemptionAccount,
): boolean =>
  rights.some((right) => {
    if (right === "reclaim" && holdings.quota.size === 0) return false;
    const most = right === "due" ? dueRoom(request, holdings) : Infinity;
    const wanted = largestAcceptable(request, most, nowMs);
    if (wanted === undefined || wanted < 1) return false;
    const freeGpus = (): number => Infinity;
    const search = { holdings, book, nowMs, taken, freeGpus };
    return !chooseVictims(request, wanted, right, search).isEmpty();
  });

function choiceBy(
  right: Right,
  request: PendingRequest,
  {
    wanted,
    view,
    context: { preemption, order },
  }: { readonly wanted: number; readonly view: CycleView; readonly context: PreemptionContext },
): VictimChoice | undefined {
  const { holdings, nowMs, taken, victims: book } = preemption;
  if (right !== "order") {
    const freeGpus = (): number => freeFor(request, view);
    return chooseVictims(request, wanted, right, { holdings, book, nowMs, taken, freeGpus });
  }
  if (order === undefined) return undefined;
  return victimsByOrder(request, { order, index: book.index, book, holdings, nowMs, taken });
}

const whyOf = (right: Right, { jobId }: PendingRequest, wanted: number): string =>
  right === "order"
    ? `${jobId} of the same tenant has been served less and wants ${wanted} GPUs`
    : `${jobId} is due ${wanted} GPUs (${right})`;

const leasesOf = ({ victims, keeps }: Found) =>
  victims.map(({ lease }) => ({ lease, keep: keeps.get(lease.id) ?? [] }));

const isWorthWaiting = (
  request: PendingRequest,
  gpus: readonly HostGpus[],
  view: CycleView,
): boolean => {
  const types = fitsOf(request, view).map(({ type }) => type);
  return isWorthIt(request, gpus, { ...view, types });
};

const freeFor = (request: PendingRequest, view: CycleView): number =>
  fitsOf(request, view).reduce((sum, { type }) => sum + freeGpus(view.capacity, type), 0);

interface Search extends HostSearch {
  readonly context: PreemptionContext;
}

interface Found {
  readonly gpus: readonly HostGpus[];
  readonly victims: readonly Victim[];
  /** The GPUs that shrinking victims keep. */
  readonly keeps: ReadonlyMap<LeaseId, readonly HostGpus[]>;
  readonly work: number;
}

function searchPlace(search: Search): Found | undefined {
  let work = 1;
  for (const { host, victims } of cheapestHosts(search).slice(0, MAX_TRIALS - 2)) {
    work += victims.length;
    const found = narrow(search, victims, [host]);
    if (found !== undefined) return { ...found, work: work + found.work };
  }
  const victims = search.choice.ordered().slice(0, MAX_RELEASED);
  work += victims.length;
  const enough = enoughOf(search, victims);
  if (enough === undefined) return undefined;
  const found = narrow(search, enough);
  if (found !== undefined) return { ...found, work: work + found.work };
  if (enough.length === victims.length) return undefined;
  const last = narrow(search, victims);
  return last && { ...last, work: work + last.work };
}

/**
 * The shortest beginning of the list without which the gang fits, by count; undefined where there is none, or where by counts the gang would
 * lie too scattered even without all of them.
 */
function enoughOf(search: Search, victims: readonly Victim[]): readonly Victim[] | undefined {
  return tryOut(search.view.capacity, (trial) => {
    const last = victims.findIndex(({ lease }) => {
      trial.removeLease(lease);
      return fitting(search).length > 0;
    });
    if (last < 0) return undefined;
    for (const { lease } of victims.slice(last + 1)) trial.removeLease(lease);
    return mayBeWorthIt(search) ? victims.slice(0, last + 1) : undefined;
  });
}

/** A necessary condition for a place that is worth waiting for, on the capacity as it is. GPUs of lenders would count as well. */
function mayBeWorthIt({ request, wanted, view }: Search): boolean {
  const { capacity } = view;
  if (!canShrink(request.gang) || needIn(capacity, request) !== undefined) return true;
  return mostWorthIn(request, wanted, view).some(
    ({ type, worth }) => worth >= floorOf(request, type, view),
  );
}

const fitting = ({ request, wanted, view }: Search) =>
  fitsOf(request, view).filter(
    ({ type, room }) => Math.min(largestAt(view.capacity, type, "now"), room) >= wanted,
  );

/** The gang's place without these victims, and those of them that are in its way; on these hosts, or on any. */
function narrow(
  search: Search,
  first: readonly Victim[],
  hosts?: readonly PoolHost[],
): Found | undefined {
  let victims = first;
  let work = 0;
  for (let trial = 0; trial < MAX_TRIALS; trial += 1) {
    const placed = placeWithout(search, victims, { hosts, place: search.context.place });
    work += victims.length + placed.work;
    const { gpus } = placed;
    if (gpus === undefined) return undefined;
    const used = victims.filter(({ lease }) => sharedGpus(lease.gpus, gpus).length > 0);
    if (used.length === 0) return undefined;
    if (used.length === victims.length)
      return (
        refined(search, { gpus, victims, work }, hosts) ?? settled(search, { gpus, victims, work })
      );
    victims = used;
  }
  return undefined;
}

/** A faster place without the same victims, or fewer of them. Undefined where there is none, or `apply` would refuse it. */
function refined(
  search: Search,
  { victims, work }: Omit<Found, "keeps">,
  hosts: readonly PoolHost[] | undefined,
): Found | undefined {
  const { placeLater, place } = search.context;
  if (placeLater === undefined || placeLater === place) return undefined;
  const { gpus } = placeWithout(search, victims, { hosts, place: placeLater });
  if (gpus === undefined) return undefined;
  const used = victims.filter(({ lease }) => sharedGpus(lease.gpus, gpus).length > 0);
  return used.length === 0 ? undefined : settled(search, { gpus, victims: used, work });
}

function placeWithout(
  search: Search,
  victims: readonly Victim[],
  {
    hosts,
    place,
  }: { readonly hosts: readonly PoolHost[] | undefined; readonly place: PlacePolicy },
): { readonly gpus?: readonly HostGpus[]; readonly work: number } {
  const { request, wanted, view } = search;
  const { capacity } = view;
  return tryOut(capacity, (trial) => {
    for (const { lease } of victims) trial.removeLease(lease);
    const clusterFits = fitting(search);
    if (clusterFits.length === 0) return { work: 0 };
    const demand = demandOf(request, wanted, view);
    const need = needIn(capacity, request);
    const free =
      hosts?.map((host) => asFree(host, need, capacity)) ?? freeHosts(clusterFits, capacity);
    const { gpus, candidates } = place(demand, free, capacity);
    if (gpus === undefined) return { work: candidates };
    const open = gpus.map(({ host }) => ({ host, mask: capacity.hosts.get(host)?.freeMask ?? 0 }));
    return { gpus: withLenders(gpus, capacity.hosts, { need, free: open }), work: candidates };
  });
}

/** Checked by the rules of `apply`: with the GPUs that shrunk victims keep, or else without. */
function settled(search: Search, found: Omit<Found, "keeps">): Found | undefined {
  const keeps = new Map<LeaseId, readonly HostGpus[]>();
  for (const { lease } of found.victims) {
    const keep = keepOf(lease, found.gpus, search);
    if (keep !== undefined) keeps.set(lease.id, keep);
  }
  for (const kept of keeps.size > 0 ? [keeps, new Map<LeaseId, never>()] : [keeps]) {
    if (isGrantable(search, { ...found, keeps: kept })) return { ...found, keeps: kept };
  }
  return undefined;
}

/** The GPUs with which the job of the lease may go on when these are taken; undefined when it gives up all. */
function keepOf(
  lease: Victim["lease"],
  gpus: readonly HostGpus[],
  { view, context }: Search,
): readonly HostGpus[] | undefined {
  const { masks } = view.capacity.reserved;
  const gang = lease.terms?.gang;
  if (gang === undefined || !preemptionOf(lease).mayShrink) return undefined;
  // Reserved ones belong to other jobs as soon as it stops.
  const rest = withoutGpus(lease.gpus, gpus).flatMap(({ host, mask }) => {
    const unreserved = mask & ~(masks.get(host) ?? 0) & ~(context.behind?.get(host) ?? 0);
    return unreserved === 0 ? [] : [{ host, mask: unreserved }];
  });
  let size = gpuCountOf(rest);
  while (size > 0 && !isAcceptableSize(gang, size)) size -= 1;
  if (size === 0) return undefined;
  const keep: HostGpus[] = [];
  for (const { host, mask } of [...rest].sort((a, b) => popCount(b.mask) - popCount(a.mask))) {
    const part = lowestBits(mask, size);
    if (part !== 0) keep.push({ host, mask: part });
    size -= popCount(part);
  }
  return keep.sort((a, b) => (a.host < b.host ? -1 : 1));
}

function isGrantable(
  { request, view: { capacity }, context }: Search,
  { gpus, victims, keeps }: Omit<Found, "work">,
): boolean {
  const { ledger, nowMs } = context.preemption;
  const slots = request.slots === undefined ? {} : { slots: 1 };
  return tryOut(capacity, (trial) => {
    for (const { lease } of victims) trial.removeLease(lease);
    for (const { lease } of victims) {
      const keep = keeps.get(lease.id);
      if (keep === undefined) continue;
      const { tenant } = lease;
      const name = `${lease.id} shrunk`;
      const need = needing(lease.terms?.constraints.resources);
      trial.addGrant({ name, tenant, gpus: keep, endAtMs: UNKNOWN_END_MS, ...need });
    }
    const { index, usage, reserved } = capacity;
    const terms = { index, usage, reserved, hostStatuses: ledger.hosts, nowMs };
    const own = withoutLenders(gpus, capacity.hosts, needIn(capacity, request));
    return checkGrant(request, { gpus: own, ...slots }, terms) === undefined;
  });
}
