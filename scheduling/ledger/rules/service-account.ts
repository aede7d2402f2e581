/**
 * @file The account of service: how much each flow of the queue has received, and how it stands against its siblings.
 *
 * A flow receives the GPUs that its jobs hold; its *virtual service* v is that divided by its weight, and the flow with the least v is next
 * (queue/tawfq.ts). `apply` keeps the account:
 * - settle: before leases change, every running flow gets  received += gpus · dt,  v += gpus · dt / weight.
 * - raise: a flow that begins to wait is raised to  v = max(v, V),  V = least v of its waiting siblings, so that idle time is not saved
 *   up. When no sibling waits, no flow is owed anything, and V = greatest v of all its siblings. V never falls.
 * An event that changes no lease and no request settles nothing: the next one settles for its time as well. `decide` adds the service since
 * the last settlement by itself, so the account is a function of the events alone.
 * Cost: O(leases + requests) to open a book; O(flows) an event that changes something; a further change at the same time O(1), and O(flows) where the least served of those
 * that wait has left, or rises. So a thousand tenants that begin to wait in one event cost as much as their number, not its square.
 * Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import type { FleetShape } from "../../../domain/fleet/fleet.ts";
import { gpuCountOf, type Lease } from "../../../domain/lease/lease.ts";
import type { PendingRequest } from "../../../domain/lease/plan.ts";
import type { Ledger, ServiceAccount } from "../ledger.ts";
import { classFlow, flowWeights, parentFlow, tenantFlow, type FlowWeights } from "./flow.ts";

/** Above this many flows those are forgotten whose place is lost by a lift anyway. */
const MAX_FLOWS = 1_000;

/** A ledger's account while events change it; changed by the functions of this file alone. */
export interface ServiceBook {
  weightOf: FlowWeights;
  /** Settled up to here; undefined while nobody was ever served. */
  atMs: number | undefined;
  readonly flows: Map<string, OpenFlow>;
  /** GPUs held, by flow. */
  readonly runningGpus: Map<string, number>;
  /** Waiting requests, by flow, by parent. */
  readonly waiting: Map<string, Map<string, number>>;
  /** By parent, the least v of its waiting flows and how many stand there; absent where nobody has looked since it changed. */
  readonly least: Map<string, Least>;
  /** By parent, below which v no flow is idle; absent where nobody has looked. */
  readonly idleFrom: Map<string, number>;
}

interface Least {
  readonly virtualSeconds: number;
  count: number;
}

/** The service of each flow, as queue policies read it. A flow without an entry has received nothing; flow.ts names the flows. */
export interface QueueFacts {
  /** Virtual service up to `atMs`; running leases have been served on since. */
  readonly service?: {
    readonly atMs: number;
    readonly flows: ReadonlyMap<string, { readonly virtualSeconds: number }>;
  };
  /** GPUs that jobs of the flow hold now. */
  readonly runningGpus: ReadonlyMap<string, number>;
}

interface OpenFlow {
  receivedGpuSeconds: number;
  virtualSeconds: number;
}

export function openBook({
  service,
  shape,
  leases,
  requests,
}: Pick<Ledger, "shape" | "leases" | "requests"> & {
  readonly service?: ServiceAccount | undefined;
}): ServiceBook {
  const book: ServiceBook = {
    weightOf: flowWeights(shape.tenants, shape.policy),
    atMs: service?.atMs,
    flows: new Map([...(service?.flows ?? [])].map(([flow, account]) => [flow, { ...account }])),
    runningGpus: runningGpusOf(leases.values()),
    waiting: new Map(),
    least: new Map(),
    idleFrom: new Map(),
  };
  for (const request of requests.values()) countWaiting(book, request, 1);
  return book;
}

/**
 * The same as `openBook` for a ledger that `former` was kept for, with the flows of the ledger. Where several running flows have no account
 * yet, they open theirs in the order of the leases.
 */
export function reopenBook(
  { weightOf, runningGpus, waiting }: ServiceBook,
  { service, leases }: Pick<Ledger, "leases"> & { readonly service?: ServiceAccount | undefined },
): ServiceBook {
  const flows = new Map<string, OpenFlow>();
  for (const [flow, account] of service?.flows ?? []) flows.set(flow, { ...account });
  let unknown = 0;
  for (const flow of runningGpus.keys()) unknown += flows.has(flow) ? 0 : 1;
  return {
    weightOf,
    atMs: service?.atMs,
    flows,
    runningGpus: unknown > 1 ? runningGpusOf(leases.values()) : runningGpus,
    waiting,
    least: new Map(),
    idleFrom: new Map(),
  };
}

/** Undefined while nobody was served and nobody is. */
export const accountOf = ({ atMs, flows, runningGpus }: ServiceBook): ServiceAccount | undefined =>
  atMs === undefined || (flows.size === 0 && runningGpus.size === 0) ? undefined : { atMs, flows };

/** The book as queue policies read it. */
export const factsOf = ({ atMs, flows, runningGpus }: ServiceBook): QueueFacts => ({
  ...(atMs !== undefined && { service: { atMs, flows } }),
  runningGpus,
});

/** Before anything changes. Time that runs backwards is not counted. */
export function settle(book: ServiceBook, nowMs: number): void {
  const seconds = (nowMs - (book.atMs ?? nowMs)) / 1_000;
  if (seconds < 0) return;
  book.atMs = nowMs;
  if (seconds === 0) return;
  for (const [flow, gpuCount] of book.runningGpus) {
    const account = openFlow(book, flow);
    const parent = parentFlow(flow);
    if (account.virtualSeconds === book.least.get(parent)?.virtualSeconds)
      book.least.delete(parent);
    const gpuSeconds = gpuCount * seconds;
    account.receivedGpuSeconds += gpuSeconds;
    account.virtualSeconds += gpuSeconds / book.weightOf(flow);
  }
}

/** After `settle`: a lease has come, gone, or is another. */
export function noteLease(
  book: ServiceBook,
  before: Lease | undefined,
  after: Lease | undefined,
): void {
  if (before !== undefined) {
    addRunning(book.runningGpus, before, -1);
    noteRest(book, before);
  }
  if (after !== undefined) addRunning(book.runningGpus, after, 1);
}

/** After `settle`: a request has come, gone, or is another. */
export function noteRequest(
  book: ServiceBook,
  before: PendingRequest | undefined,
  after: PendingRequest | undefined,
): void {
  if (after !== undefined) {
    raise(book, classFlow(after));
    raise(book, tenantFlow(after));
    countWaiting(book, after, 1);
  }
  if (before !== undefined) {
    countWaiting(book, before, -1);
    noteRest(book, before);
  }
}

/** After `settle`: what was served before was served by the former weights. */
export const noteShape = (book: ServiceBook, { tenants, policy }: FleetShape): void => {
  book.weightOf = flowWeights(tenants, policy);
};

const virtualOf = ({ flows }: ServiceBook, flow: string): number =>
  flows.get(flow)?.virtualSeconds ?? 0;

function openFlow({ flows }: ServiceBook, flow: string): OpenFlow {
  const known = flows.get(flow);
  if (known !== undefined) return known;
  const account = { receivedGpuSeconds: 0, virtualSeconds: 0 };
  flows.set(flow, account);
  return account;
}

function raise(book: ServiceBook, flow: string): void {
  const parent = parentFlow(flow);
  if (book.waiting.get(parent)?.has(flow) === true) return;
  const floor = floorOf(book, parent);
  if (virtualOf(book, flow) < floor) openFlow(book, flow).virtualSeconds = floor;
  if (book.flows.size > MAX_FLOWS) forget(book, parent, floor);
}

/** V of the siblings: where a flow stands at least that begins to wait. */
function floorOf(book: ServiceBook, parent: string): number {
  const siblings = book.waiting.get(parent);
  if (siblings === undefined) return greatestOf(book, siblingsOf(book, parent));
  const known = book.least.get(parent) ?? leastOf(book, siblings.keys());
  book.least.set(parent, known);
  return known.virtualSeconds;
}

/** How far a flow that waits, or begins to, is ahead of the least served sibling that waits, in virtual seconds; never below 0. */
export const lagSeconds = (book: ServiceBook, flow: string): number =>
  Math.max(0, virtualOf(book, flow) - floorOf(book, parentFlow(flow)));

function leastOf(book: ServiceBook, flows: Iterable<string>): Least {
  let least: Least = { virtualSeconds: Infinity, count: 0 };
  for (const flow of flows) {
    const virtualSeconds = virtualOf(book, flow);
    if (virtualSeconds < least.virtualSeconds) least = { virtualSeconds, count: 0 };
    if (virtualSeconds === least.virtualSeconds) least.count += 1;
  }
  return least;
}

/** A flow that stands at the least, or below, has begun to wait, or waits no more. */
function noteWaiting(book: ServiceBook, flow: string, sign: 1 | -1): void {
  const parent = parentFlow(flow);
  const least = book.least.get(parent);
  if (least === undefined) return;
  const virtualSeconds = virtualOf(book, flow);
  if (virtualSeconds === least.virtualSeconds) least.count += sign;
  if (virtualSeconds < least.virtualSeconds || least.count === 0) book.least.delete(parent);
}

/** Some of its flows may be idle from now on. */
function noteRest(book: ServiceBook, of: Parameters<typeof tenantFlow>[0]): void {
  for (const flow of [classFlow(of), tenantFlow(of)]) {
    const parent = parentFlow(flow);
    const from = book.idleFrom.get(parent);
    if (from !== undefined) book.idleFrom.set(parent, Math.min(from, virtualOf(book, flow)));
  }
}

const greatestOf = (book: ServiceBook, flows: Iterable<string>): number => {
  let greatest = 0;
  for (const flow of flows) greatest = Math.max(greatest, virtualOf(book, flow));
  return greatest;
};

const siblingsOf = ({ flows }: ServiceBook, parent: string): readonly string[] =>
  [...flows.keys()].filter((flow) => parentFlow(flow) === parent);

/** An idle flow below V would be lifted to V: it stands there as well when nothing is known of it. */
function forget(book: ServiceBook, parent: string, floor: number): void {
  if (floor <= (book.idleFrom.get(parent) ?? -Infinity)) return;
  let idleFrom = Infinity;
  for (const flow of siblingsOf(book, parent)) {
    if (!isIdleFlow(book, flow)) continue;
    if (virtualOf(book, flow) < floor) book.flows.delete(flow);
    else idleFrom = Math.min(idleFrom, virtualOf(book, flow));
  }
  book.idleFrom.set(parent, idleFrom);
}

/** Nothing of it runs or waits. */
export const isIdleFlow = ({ runningGpus, waiting }: ServiceBook, flow: string): boolean =>
  !runningGpus.has(flow) && waiting.get(parentFlow(flow))?.has(flow) !== true;

/** GPUs that the jobs of each flow hold. Cost: O(leases). */
export function runningGpusOf(leases: Iterable<Lease>): Map<string, number> {
  const runningGpus = new Map<string, number>();
  for (const lease of leases) addRunning(runningGpus, lease, 1);
  return runningGpus;
}

/** A vacating lease serves nobody: its job is gone. */
export function addRunning(runningGpus: Map<string, number>, lease: Lease, sign: 1 | -1): void {
  if (lease.state === "vacating") return;
  const gpuCount = sign * gpuCountOf(lease.gpus);
  add(runningGpus, classFlow(lease), gpuCount);
  add(runningGpus, tenantFlow(lease), gpuCount);
}

function countWaiting(book: ServiceBook, request: PendingRequest, sign: 1 | -1): void {
  const { waiting } = book;
  for (const flow of [classFlow(request), tenantFlow(request)]) {
    const parent = parentFlow(flow);
    const siblings = waiting.get(parent) ?? new Map<string, number>();
    waiting.set(parent, siblings);
    const count = siblings.size;
    add(siblings, flow, sign);
    if (siblings.size !== count) noteWaiting(book, flow, sign);
    if (siblings.size === 0) waiting.delete(parent);
  }
}

function add(counts: Map<string, number>, key: string, more: number): void {
  const count = (counts.get(key) ?? 0) + more;
  if (count > 0) counts.set(key, count);
  else counts.delete(key);
}
