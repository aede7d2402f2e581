/**
 * @file Whom to evict so that a request that waits can start: first its place after the eviction, then the evictions.
 *
 * The request must be due (victims.ts says to whom and by which right). Victims are released in a trial on the cycle's own capacity,
 * and the same judge and placement policy as ever say where the gang would lie; whoever has no GPU in that place stays. Two searches:
 *   one host     for gangs that a host can hold: per host the cheapest victims that make room there; the cheapest host wins.
 *   any hosts    for the others, and where no host does: victims are released in order of cost until the gang fits.
 * A victim that may shrink keeps what is left of its GPUs, if that is an acceptable size; the others give up all.
 * Nothing is evicted beyond the tenant's budget, and nothing for a place that `apply` would refuse.
 *
 * Why there are no loops. Let S be the sum over flows of what they hold above their dues, and B the sum over quotas of what is held
 * above them. By right of due, A takes k GPUs from flows that are not below their dues after, and is not above its own: S falls by k and
 * B does not grow. By right of reclaim B falls by what was borrowed of the k, 1 at least. So (B, S) falls with every eviction, and evictions alone come to an end. Who was
 * evicted asks for what it had: with it, it would be above its due (or quota) again, so that request evicts nobody until shares
 * change. Dues change with arrivals and ends alone; so each request is the cause of one round of evictions at most.
 * Cost: O(hosts + leases on them) a request, O(k log k) for k victims where no single host does; at most `MAX_RELEASED` leases and `MAX_TRIALS` places.
 */

import { DEFAULT_POLICY } from "../domain/fleet.ts";
import type { LeaseId, TenantId } from "../domain/ids.ts";
import { gpuCountOf, popCount, type HostGpus } from "../domain/lease.ts";
import type { EvictItem, PendingRequest, ReserveItem } from "../domain/plan.ts";
import { lowestBits } from "../lib/bits.ts";
import { preemptionOf, spentBudget } from "./apply-preempt.ts";
import {
  largestAt,
  markOf,
  noteGrant,
  noteLease,
  returnTo,
  undoGrant,
  type Capacity,
} from "./capacity.ts";
import { cheapestHosts, type HostSearch } from "./cheapest-hosts.ts";
import { checkGrant, isAcceptableSize, largestAcceptable } from "./feasibility.ts";
import { UNKNOWN_END_MS, type PoolHost } from "./host-pools.ts";
import { holdingsNow, type HoldingsBook } from "./holdings-book.ts";
import { noteHeld, openHoldings, type Holdings } from "./holdings.ts";
import { freeGpus, prospectsOf, type Scene } from "./judge.ts";
import type { Ledger } from "./ledger.ts";
import type { PlacePolicy } from "./placement/place-policy.ts";
import { isWorthIt } from "./productive-size.ts";
import { sharedGpus, withoutGpus } from "./reserved.ts";
import { demandOf, freeHosts } from "./start.ts";
import { openVictimBook, type Victim, type VictimBook } from "./victim-book.ts";
import { chooseVictims, dueRoom, type Right } from "./victims.ts";

/** Leases that are released in one search. */
const MAX_RELEASED = 512;
/** Places that are looked for in one search. */
const MAX_TRIALS = 6;

/** What evictions of one cycle have in common; changed by `planPreemption` and `noteGranted`. */
export interface Preemption {
  readonly ledger: Ledger;
  readonly nowMs: number;
  readonly holdings: Holdings;
  readonly victims: VictimBook;
  /** Leases that the plan evicts. */
  readonly taken: Set<LeaseId>;
  /** GPU-seconds that the plan costs others, by tenant. */
  readonly spent: Map<TenantId, number>;
}

/** Undefined where the fleet does not preempt. Cost: O(leases + requests), with a book O(what has changed). */
export function openPreemption(
  ledger: Ledger,
  { index, pools }: Capacity,
  { nowMs, book, victims }: PreemptionSources,
): Preemption | undefined {
  if (!(ledger.shape.policy ?? DEFAULT_POLICY).isPreempting) return undefined;
  const supplyGpus = pools.reduce((sum, { tallies }) => sum + tallies.idle.gpus, 0);
  const holdings =
    book !== undefined && ledger.reasons.size === 0
      ? holdingsNow(book, ledger, supplyGpus)
      : openHoldings(ledger, index, supplyGpus);
  return {
    ledger,
    nowMs,
    holdings,
    victims: victims ?? openVictimBook(ledger.leases.values(), index),
    taken: new Set(),
    spent: new Map(),
  };
}

export interface PreemptionSources {
  readonly nowMs: number;
  /** Where one is kept. */
  readonly book?: HoldingsBook;
  /** Where one is kept. */
  readonly victims?: VictimBook;
}

/** The cycle has granted this. */
export const noteGranted = (
  { holdings }: Preemption,
  request: PendingRequest,
  gpus: readonly HostGpus[],
): void => noteHeld(holdings, request, gpus);

export interface PreemptionContext {
  readonly preemption: Preemption;
  readonly place: PlacePolicy;
  /** Takes what is set apart for the request off the capacity, if it is there still: called before a place is looked for. */
  readonly clear?: () => void;
}

export interface PreemptionPlan {
  readonly evict: readonly EvictItem[];
  readonly reserve: ReserveItem;
  readonly work: number;
}

/**
 * For a request that cannot start; of an array's, one gang. What is set apart for itself is off the capacity, or taken off by `clear`;
 * else that is left as it was. The plan counts as made: later requests of the cycle are judged after it.
 */
export function planPreemption(
  request: PendingRequest,
  scene: Scene,
  context: PreemptionContext,
): PreemptionPlan | undefined {
  for (const right of ["due", "reclaim"] as const) {
    const plan = planBy(right, request, scene, context);
    if (plan !== undefined) return plan;
  }
  return undefined;
}

function planBy(
  right: Right,
  request: PendingRequest,
  scene: Scene,
  context: PreemptionContext,
): PreemptionPlan | undefined {
  const { preemption } = context;
  const { holdings, nowMs, taken, victims } = preemption;
  // Nobody holds anything under a quota, so nobody has borrowed.
  if (right === "reclaim" && holdings.quota.size === 0) return undefined;
  const most = right === "due" ? dueRoom(request, holdings) : Infinity;
  const wanted = largestAcceptable(request, most, nowMs);
  if (wanted === undefined || wanted < 1) return undefined;
  const freeGpus = (): number => freeFor(request, scene);
  const choice = chooseVictims(request, wanted, right, {
    holdings,
    book: victims,
    nowMs,
    taken,
    freeGpus,
  });
  if (choice.isEmpty()) return undefined;
  context.clear?.();
  const before = markOf(scene.capacity);
  const found = searchPlace({ request, wanted, scene, context, choice, book: victims });
  returnTo(scene.capacity, before);
  if (found === undefined || !isWorthWaiting(request, found.gpus, scene)) return undefined;
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
      reason: `${request.jobId} is due ${wanted} GPUs (${right}); ${lostGpuSeconds} GPU-seconds are lost, the least that makes room`,
    };
  });
  const lost = evict.reduce((sum, { lostGpuSeconds }) => sum + lostGpuSeconds, 0);
  if (!isAffordable(preemption, request.tenant, lost)) return undefined;
  commit(preemption, request, { ...found, lost });
  return { evict, reserve: { jobId: request.jobId, gpus, kind: "preemption" }, work };
}

const isWorthWaiting = (
  request: PendingRequest,
  gpus: readonly HostGpus[],
  scene: Scene,
): boolean => {
  const types = prospectsOf(request, scene).map(({ type }) => type);
  return isWorthIt(request, gpus, types, scene);
};

const freeFor = (request: PendingRequest, scene: Scene): number =>
  prospectsOf(request, scene).reduce((sum, { type }) => sum + freeGpus(scene.capacity, type), 0);

function isAffordable(
  { ledger, nowMs, spent }: Preemption,
  tenant: TenantId,
  lost: number,
): boolean {
  const budget = (ledger.shape.policy ?? DEFAULT_POLICY).preemptionBudgetGpuSeconds;
  const before = spentBudget(ledger.evictions ?? [], tenant, nowMs) + (spent.get(tenant) ?? 0);
  return before + lost <= budget;
}

function commit(
  { holdings, taken, spent }: Preemption,
  request: PendingRequest,
  { victims, keeps, gpus, lost }: Found & { readonly lost: number },
): void {
  for (const { lease } of victims) {
    taken.add(lease.id);
    noteHeld(holdings, lease, lease.gpus, -1);
    noteHeld(holdings, lease, keeps.get(lease.id) ?? []);
  }
  noteHeld(holdings, request, gpus);
  spent.set(request.tenant, (spent.get(request.tenant) ?? 0) + lost);
}

interface Search extends HostSearch {
  readonly context: PreemptionContext;
}

interface Found {
  readonly gpus: readonly HostGpus[];
  readonly victims: readonly Victim[];
  /** What those keep that shrink. */
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

/** The shortest beginning of the list by whose release the gang fits, by count. */
function enoughOf(search: Search, victims: readonly Victim[]): readonly Victim[] | undefined {
  const { capacity } = search.scene;
  let released = 0;
  let isEnough = false;
  for (const { lease } of victims) {
    noteLease(capacity, lease, undefined);
    released += 1;
    isEnough = fitting(search).length > 0;
    if (isEnough) break;
  }
  for (const { lease } of victims.slice(0, released)) noteLease(capacity, undefined, lease);
  return isEnough ? victims.slice(0, released) : undefined;
}

const fitting = ({ request, wanted, scene }: Search) =>
  prospectsOf(request, scene).filter(
    ({ type, room }) => Math.min(largestAt(scene.capacity, type, "now"), room) >= wanted,
  );

/** The gang's place when these are gone, less those that are not in its way; on these hosts, or on any. */
function narrow(
  search: Search,
  first: readonly Victim[],
  hosts?: readonly PoolHost[],
): Found | undefined {
  let victims = first;
  let work = 0;
  for (let trial = 0; trial < MAX_TRIALS; trial += 1) {
    const placed = placeWithout(search, victims, hosts);
    work += victims.length + placed.work;
    const { gpus } = placed;
    if (gpus === undefined) return undefined;
    const used = victims.filter(({ lease }) => sharedGpus(lease.gpus, gpus).length > 0);
    if (used.length === 0) return undefined;
    if (used.length === victims.length) return settled(search, { gpus, victims, work });
    victims = used;
  }
  return undefined;
}

function placeWithout(
  search: Search,
  victims: readonly Victim[],
  hosts: readonly PoolHost[] | undefined,
): { readonly gpus?: readonly HostGpus[]; readonly work: number } {
  const { request, wanted, scene, context } = search;
  const { capacity } = scene;
  for (const { lease } of victims) noteLease(capacity, lease, undefined);
  const prospects = fitting(search);
  const placed =
    prospects.length === 0
      ? { candidates: 0 }
      : context.place(demandOf(request, wanted, capacity), hosts ?? freeHosts(prospects), capacity);
  for (const { lease } of victims) noteLease(capacity, undefined, lease);
  const { gpus, candidates } = { gpus: undefined, ...placed };
  return gpus === undefined ? { work: candidates } : { gpus, work: candidates };
}

/** Judged as `apply` will judge the grant: with what shrunk victims keep, or else without. */
function settled(search: Search, found: Omit<Found, "keeps">): Found | undefined {
  const keeps = new Map<LeaseId, readonly HostGpus[]>();
  for (const { lease } of found.victims) {
    const keep = keepOf(lease, found.gpus, search.scene.capacity);
    if (keep !== undefined) keeps.set(lease.id, keep);
  }
  for (const kept of keeps.size > 0 ? [keeps, new Map<LeaseId, never>()] : [keeps]) {
    if (isGrantable(search, { ...found, keeps: kept })) return { ...found, keeps: kept };
  }
  return undefined;
}

/** What the job of the lease may go on with when the rest is taken; undefined when it gives up all. */
function keepOf(
  lease: Victim["lease"],
  gpus: readonly HostGpus[],
  { reserved }: Capacity,
): readonly HostGpus[] | undefined {
  const gang = lease.terms?.gang;
  if (gang === undefined || !preemptionOf(lease).mayShrink) return undefined;
  // Others may wait for some of them; those are not its own any more once it stops.
  const rest = withoutGpus(lease.gpus, gpus).flatMap(({ host, mask }) => {
    const own = mask & ~(reserved.masks.get(host) ?? 0);
    return own === 0 ? [] : [{ host, mask: own }];
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
  { request, scene: { capacity }, context }: Search,
  { gpus, victims, keeps }: Omit<Found, "work">,
): boolean {
  const kept = victims.flatMap(({ lease }) => {
    const keep = keeps.get(lease.id);
    const { tenant } = lease;
    const name = `${lease.id} shrunk`;
    return keep === undefined ? [] : [{ name, tenant, gpus: keep, endAtMs: UNKNOWN_END_MS }];
  });
  for (const { lease } of victims) noteLease(capacity, lease, undefined);
  for (const grant of kept) noteGrant(capacity, grant);
  const { index, usage, reserved } = capacity;
  const { ledger, nowMs } = context.preemption;
  const terms = { index, usage, reserved, standings: ledger.hosts, nowMs };
  const slots = request.slots === undefined ? {} : { slots: 1 };
  const problem = checkGrant(request, { gpus, ...slots }, terms);
  for (const grant of kept) undoGrant(capacity, grant);
  for (const { lease } of victims) noteLease(capacity, undefined, lease);
  return problem === undefined;
}
