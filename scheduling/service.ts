/**
 * @file The account of service: how much each flow of the queue was served, and where it stands among its siblings.
 *
 * A flow is served the GPUs that its jobs hold; its *virtual service* v is that divided by its weight, and the flow with
 * the least v is next (queue/tawfq.ts). `apply` keeps the account:
 * - settle: before leases change, every running flow gets  received += gpus · dt,  v += gpus · dt / weight.
 * - lift: a flow that has begun to wait is put to  v = max(v, V),  V = least v of its waiting siblings, so that idle time is not
 *   banked. When none of them waits nobody is owed anything, and V = greatest v of all its siblings. V never falls.
 * Nothing is settled by an event that changes no lease and no request: the next one settles for its time as well. `decide` adds
 * what has run since by itself, so the account is a function of the events alone.
 * Cost: O(leases + requests) to open a book; O(flows) an event that changes something, O(1) a further change at the same time.
 */

import type { FleetShape } from "../domain/fleet.ts";
import { gpuCountOf, type Lease } from "../domain/lease.ts";
import type { PendingRequest } from "../domain/plan.ts";
import type { Ledger, ServiceAccount } from "./ledger.ts";
import { classFlow, flowWeights, parentFlow, tenantFlow, type FlowWeights } from "./queue/flow.ts";
import type { QueueFacts } from "./queue/queue-policy.ts";

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
  };
  for (const request of requests.values()) countWaiting(book, request, 1);
  return book;
}

/** Undefined while nobody was served and nobody is. */
export const accountOf = ({ atMs, flows, runningGpus }: ServiceBook): ServiceAccount | undefined =>
  atMs === undefined || (flows.size === 0 && runningGpus.size === 0) ? undefined : { atMs, flows };

/** What the queue asks for. */
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
  if (before !== undefined) addRunning(book.runningGpus, before, -1);
  if (after !== undefined) addRunning(book.runningGpus, after, 1);
}

/** After `settle`: a request has come, gone, or is another. */
export function noteRequest(
  book: ServiceBook,
  before: PendingRequest | undefined,
  after: PendingRequest | undefined,
): void {
  if (after !== undefined) {
    lift(book, classFlow(after));
    lift(book, tenantFlow(after));
    countWaiting(book, after, 1);
  }
  if (before !== undefined) countWaiting(book, before, -1);
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

function lift(book: ServiceBook, flow: string): void {
  const parent = parentFlow(flow);
  if (book.waiting.get(parent)?.has(flow) === true) return;
  const floor = floorOf(book, parent);
  if (virtualOf(book, flow) < floor) openFlow(book, flow).virtualSeconds = floor;
  if (book.flows.size > MAX_FLOWS) forget(book, parent, floor);
}

/** V of the siblings: where a flow stands at least that begins to wait. */
function floorOf(book: ServiceBook, parent: string): number {
  const siblings = book.waiting.get(parent);
  return siblings === undefined
    ? greatestOf(book, siblingsOf(book, parent))
    : leastOf(book, siblings.keys());
}

/** How far a flow that waits, or begins to, is ahead of the least served sibling that waits, in virtual seconds; never below 0. */
export const lagSeconds = (book: ServiceBook, flow: string): number =>
  Math.max(0, virtualOf(book, flow) - floorOf(book, parentFlow(flow)));

const leastOf = (book: ServiceBook, flows: Iterable<string>): number => {
  let least = Infinity;
  for (const flow of flows) least = Math.min(least, virtualOf(book, flow));
  return least;
};

const greatestOf = (book: ServiceBook, flows: Iterable<string>): number => {
  let greatest = 0;
  for (const flow of flows) greatest = Math.max(greatest, virtualOf(book, flow));
  return greatest;
};

const siblingsOf = ({ flows }: ServiceBook, parent: string): readonly string[] =>
  [...flows.keys()].filter((flow) => parentFlow(flow) === parent);

/** An idle flow below V would be lifted to V: it stands there as well when nothing is known of it. */
function forget(book: ServiceBook, parent: string, floor: number): void {
  for (const flow of siblingsOf(book, parent)) {
    const isIdle = !book.runningGpus.has(flow) && !book.waiting.get(parent)?.has(flow);
    if (isIdle && virtualOf(book, flow) < floor) book.flows.delete(flow);
  }
}

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

function countWaiting({ waiting }: ServiceBook, request: PendingRequest, sign: 1 | -1): void {
  for (const flow of [classFlow(request), tenantFlow(request)]) {
    const parent = parentFlow(flow);
    const siblings = waiting.get(parent) ?? new Map<string, number>();
    waiting.set(parent, siblings);
    add(siblings, flow, sign);
    if (siblings.size === 0) waiting.delete(parent);
  }
}

function add(counts: Map<string, number>, key: string, more: number): void {
  const count = (counts.get(key) ?? 0) + more;
  if (count > 0) counts.set(key, count);
  else counts.delete(key);
}
