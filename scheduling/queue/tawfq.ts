/**
 * @file The queue of topology-aware weighted fair queuing: the flow that has received least for its weight is next; inside a tenant the
 * oldest or most important request, least served first.
 *
 * Hierarchical start-time fair queuing (Goyal, Vin, Cheng 1996) with GPUs for bandwidth. The flows (flow.ts) are classes,
 * and tenants inside a class. For each flow i of weight w_i, with r_i GPUs that its jobs hold:
 *
 *     v_i          = virtual service: GPU-seconds received / w_i                                      (service-account.ts keeps the account)
 *     key_i        = v_i + H · r_i / w_i       H = 30 s: what it is about to receive, so that grants of one cycle alternate by weight
 *     next flow    = smallest key; then larger weight; then the id. At the root a class, in it a tenant.
 *     next request = of the tenant: largest  priority − (submittedAtMs + delay of its level) / agingMs;  then arrival
 *                    the level of service-order.ts: a job that gave way to others that were served less counts as submitted later
 *     deficit_i    = w_i · (V̄ − v_i),  V̄ = Σ w·v / Σ w:  service due less service received, in GPU-seconds; smallest v = largest deficit per weight
 *
 * Invariants (tests of the same names; proofs in docs/decisions/0015):
 * - Work conserving: a pass returns every waiting request once, so fairness leaves out nothing that fits.
 * - Bounded lag: let V be the least v of the waiting siblings. As long as the first request is served first, every waiting flow i has  0 ≤ v_i − V ≤ L·r_i/w_i + H·max_k r_k/w_k,  L the longest run: its GPUs may run on after its last grant, and the
 *   horizon may have put it before others. Backfill adds the GPUs that were granted past waiting requests.
 * - Waiting never hurts: time moves a flow back only for the service that it receives meanwhile, and no request inside a tenant.
 * - Age overtakes: a request passes every later one of its tenant whose priority is higher by Δ once it is Δ · agingMs older, and by the
 *   difference of their delays. There are finitely many levels, so that is bounded.
 * - No starvation: simulator/starvation.ts has the bound.
 *
 * Priority counts inside a tenant only: one tenant's priorities take nothing from another.
 * The key of a request never changes, so its heap needs no upkeep; the keys of flows are read from the account when a pass begins.
 * Cost: O(log n) to add and to remove; a pass O(flows) to open, then O(log n) a request.
 */

import { DEFAULT_POLICY } from "../../domain/fleet/fleet.ts";
import { byCodeUnit, type JobId } from "../../domain/values/ids.ts";
import type { PendingRequest } from "../../domain/lease/plan.ts";
import { heap, type Heap, type IsBefore } from "../../lib/heap.ts";
import { byArrival } from "./arrival.ts";
import { classFlow, flowWeights, tenantFlow } from "../ledger/rules/flow.ts";
import type { QueueFacts } from "../ledger/rules/service-account.ts";
import { kindOf as defaultKind } from "./kind.ts";
import { orderedQueue } from "./kind-queue.ts";
import { NO_LABEL, type PassingOver } from "./labels.ts";
import type { OrderedQueue, QueueWalk } from "./ordered-queue.ts";
import { GROWTH, levelOf } from "./service-order.ts";
import type { Queue, QueuePolicy, QueueView, QueueCursor } from "./queue-policy.ts";
import type { Order } from "./single-queue.ts";

/** H: the GPUs that a flow holds count as received this far ahead. */
export const HORIZON_SECONDS = 30;
/** Of level 1; of each further level `GROWTH` times as much. */
const FIRST_DELAY_MS = 12 * 3_600_000;

export const tawfq: QueuePolicy = {
  open: (view) => open(view, bySeniority(view.policy?.agingMs ?? DEFAULT_POLICY.agingMs)),
};

/** The same flows with another order inside each tenant and class. */
export const weighted = (order: Order): QueuePolicy => ({
  open: (view) => open(view, (a, b) => order(a, b) < 0),
});

/** A class with waiting requests, or a tenant of it. */
interface Flow {
  readonly id: string;
  readonly weight: number;
}

interface TenantFlow extends Flow {
  readonly queue: OrderedQueue;
}

interface ClassFlow extends Flow {
  readonly tenants: Map<string, TenantFlow>;
}

function open(
  { requests, tenants, policy, kindOf = defaultKind }: QueueView,
  isBefore: IsBefore<PendingRequest>,
): Queue {
  const weightOf = flowWeights(tenants, policy);
  const classes = new Map<string, ClassFlow>();
  const waiting = new Map<JobId, PendingRequest>();
  for (const request of requests) add(request);
  return { size: () => waiting.size, add, remove, forget, order };

  function add(request: PendingRequest): void {
    remove(request.jobId);
    waiting.set(request.jobId, request);
    const inClass = childOf(classes, classFlow(request), (flow) => ({
      ...flow,
      tenants: new Map<string, TenantFlow>(),
    }));
    const inTenant = childOf(inClass.tenants, tenantFlow(request), (flow) => ({
      ...flow,
      queue: orderedQueue(isBefore, kindOf),
    }));
    inTenant.queue.add(request);
  }

  function childOf<Child>(
    siblings: Map<string, Child>,
    id: string,
    create: (flow: Flow) => Child,
  ): Child {
    const known = siblings.get(id);
    if (known !== undefined) return known;
    const created = create({ id, weight: weightOf(id) });
    siblings.set(id, created);
    return created;
  }

  function remove(job: JobId): void {
    const request = waiting.get(job);
    if (request === undefined) return;
    waiting.delete(job);
    const inClass = classes.get(classFlow(request));
    const inTenant = inClass?.tenants.get(tenantFlow(request));
    if (inClass === undefined || inTenant === undefined) return;
    inTenant.queue.remove(request);
    if (!inTenant.queue.isEmpty()) return;
    inClass.tenants.delete(inTenant.id);
    if (inClass.tenants.size === 0) classes.delete(inClass.id);
  }

  function forget(job: JobId): void {
    const request = waiting.get(job);
    if (request === undefined) return;
    const inTenant = classes.get(classFlow(request))?.tenants.get(tenantFlow(request));
    inTenant?.queue.forget?.(request);
  }

  function order(nowMs: number, facts: QueueFacts): QueueCursor {
    return cursorFor(classes, (flow) => keyOf(flow, nowMs, facts));
  }
}

/** Service that the flow has received for its weight, and is about to receive. */
function keyOf({ id, weight }: Flow, nowMs: number, { service, runningGpus }: QueueFacts): number {
  const virtualSeconds = service?.flows.get(id)?.virtualSeconds ?? 0;
  const sinceSeconds = service === undefined ? 0 : Math.max(0, nowMs - service.atMs) / 1_000;
  const gpuCount = runningGpus.get(id) ?? 0;
  return virtualSeconds + ((sinceSeconds + HORIZON_SECONDS) * gpuCount) / weight;
}

/** priority − (submittedAtMs + delay) / agingMs, larger first, written so that whole numbers stay whole. */
function bySeniority(agingMs: number): IsBefore<PendingRequest> {
  const bornAtMs = (request: PendingRequest): number =>
    request.submittedAtMs + delayMs(levelOf(request)) - request.priority * agingMs;
  return (a, b) => (bornAtMs(a) - bornAtMs(b) || byArrival(a, b)) < 0;
}

/** By so much later a job counts as submitted that gave way so often. */
export const delayMs = (level: number): number =>
  level === 0 ? 0 : FIRST_DELAY_MS * GROWTH ** (level - 1);

/** A flow in one pass: its key grows with the grants of the pass. */
interface Runner {
  readonly flow: Flow;
  key: number;
}

interface TenantRunner extends Runner {
  readonly flow: TenantFlow;
  /** Through its queue; opened when the tenant is first next. */
  walk?: QueueWalk;
}

interface ClassRunner extends Runner {
  readonly flow: ClassFlow;
  /** Its tenants; opened when the class is first next. */
  race?: Heap<TenantRunner>;
}

function cursorFor(
  classes: ReadonlyMap<string, ClassFlow>,
  keyNow: (flow: Flow) => number,
): QueueCursor {
  const byClass = new Map<string, ClassRunner>();
  const byTenant = new Map<string, TenantRunner>();
  for (const flow of classes.values()) byClass.set(flow.id, { flow, key: keyNow(flow) });
  const race = heap<ClassRunner>(isAhead, byClass.values());
  /** From which the last request came. */
  let walked: QueueWalk | undefined;
  return {
    next,
    label: () => walked?.label?.() ?? NO_LABEL,
    setLabel: (label) => walked?.setLabel?.(label),
    noteGrant,
    dismiss,
    recall,
  };

  function next(over?: PassingOver): PendingRequest | undefined {
    for (let first = race.peek(); first !== undefined; first = race.peek()) {
      const tenants = (first.race ??= tenantsOf(first.flow));
      for (let tenant = tenants.peek(); tenant !== undefined; tenant = tenants.peek()) {
        const walk = (tenant.walk ??= tenant.flow.queue.walk());
        const request = walk.next(over);
        walked = walk;
        if (request !== undefined) return request;
        tenants.pop();
      }
      race.pop();
    }
    return undefined;
  }

  function tenantsOf({ tenants }: ClassFlow): Heap<TenantRunner> {
    const runners: TenantRunner[] = [];
    for (const flow of tenants.values()) {
      const runner = { flow, key: keyNow(flow) };
      runners.push(runner);
      byTenant.set(flow.id, runner);
    }
    return heap<TenantRunner>(isAhead, runners);
  }

  function noteGrant(request: PendingRequest, gpuCount: number): void {
    const inClass = byClass.get(classFlow(request));
    const inTenant = byTenant.get(tenantFlow(request));
    if (inClass === undefined || inTenant === undefined) return;
    advance(inClass, gpuCount);
    race.moved(inClass);
    advance(inTenant, gpuCount);
    inClass.race?.moved(inTenant);
  }

  function dismiss(request: PendingRequest, stays?: readonly PendingRequest[]): void {
    byTenant.get(tenantFlow(request))?.walk?.dismiss(request, stays);
  }

  /** A tenant that has left the race has no request to come: its dismissed requests stand before those that were returned since. */
  function recall(): void {
    for (const { walk } of byTenant.values()) walk?.recall();
  }
}

function advance(runner: Runner, gpuCount: number): void {
  runner.key += (HORIZON_SECONDS * gpuCount) / runner.flow.weight;
}

/** Exact comparison of floats: a tolerance would not be transitive, and the same events give the same floats everywhere. */
const isAhead = (a: Runner, b: Runner): boolean =>
  (a.key - b.key || b.flow.weight - a.flow.weight || byCodeUnit(a.flow.id, b.flow.id)) < 0;
