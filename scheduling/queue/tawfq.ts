/**
 * @file Topology-aware weighted fair queuing, its queue: next is who has received least for its weight; inside a tenant, who is oldest
 * or most important.
 *
 * Hierarchical start-time fair queuing (Goyal, Vin, Cheng 1996) with GPUs for bandwidth. The flows (flow.ts) are classes,
 * and tenants inside a class. For each flow i of weight w_i, with r_i GPUs that its jobs hold:
 *
 *     v_i          = virtual service: GPU-seconds received / w_i                                      (service.ts keeps the account)
 *     key_i        = v_i + H · r_i / w_i       H = 30 s: what it is about to receive, so that grants of one cycle alternate by weight
 *     next flow    = smallest key; then larger weight; then the id. At the root a class, in it a tenant.
 *     next request = of the tenant: largest  priority − submittedAtMs / agingMs;  then arrival
 *     deficit_i    = w_i · (V̄ − v_i),  V̄ = Σ w·v / Σ w:  service due less service received, in GPU-seconds; smallest v = largest deficit per weight
 *
 * Invariants (tests of the same names; proofs in docs/decisions/0015):
 * - Work conserving: a turn yields every waiting request once, so nothing that fits can be left out for the sake of fairness.
 * - Bounded lag: let V be the least v of the siblings that wait. As long as the first in line is served first, every flow i that
 *   waits has  0 ≤ v_i − V ≤ L·r_i/w_i + H·max_k r_k/w_k,  L the longest run: what it holds may run on after its last grant, and the
 *   horizon may have put it before others. Backfill adds what was granted past those that waited.
 * - Waiting never hurts: the passing of time moves a flow back only for what it receives meanwhile, and inside a tenant nobody at all.
 * - Age overtakes: a request passes every later one of its tenant whose priority is higher by Δ once it is Δ · agingMs older.
 * - No starvation: starvation.ts has the bound.
 *
 * Priority counts inside a tenant only: what one tenant calls important takes nothing from another.
 * The key of a request never changes, so its heap needs no upkeep; those of flows are read off the account at the
 * beginning of a turn. Cost: O(log n) to add and to remove; a turn O(flows) to open, then O(log n) a request.
 */

import { DEFAULT_POLICY } from "../../domain/fleet.ts";
import { byCodeUnit, type JobId } from "../../domain/ids.ts";
import type { PendingRequest } from "../../domain/plan.ts";
import { heap, type Heap, type IsBefore } from "../../lib/heap.ts";
import { byArrival } from "./arrival.ts";
import { classFlow, flowWeights, tenantFlow } from "./flow.ts";
import { kindOf as defaultKind } from "./kind.ts";
import { line, type Line, type LineWalk } from "./line.ts";
import type { Queue, QueueFacts, QueuePolicy, QueueView, Turn } from "./queue-policy.ts";

/** H: how far ahead the GPUs that a flow holds count as received. */
export const HORIZON_SECONDS = 30;

export const tawfq: QueuePolicy = { open };

/** A class with waiting requests, or a tenant of it. */
interface Flow {
  readonly id: string;
  readonly weight: number;
}

interface TenantFlow extends Flow {
  readonly line: Line;
}

interface ClassFlow extends Flow {
  readonly tenants: Map<string, TenantFlow>;
}

function open({ requests, tenants, policy, kindOf = defaultKind }: QueueView): Queue {
  const weightOf = flowWeights(tenants, policy);
  const isBefore = bySeniority(policy?.agingMs ?? DEFAULT_POLICY.agingMs);
  const classes = new Map<string, ClassFlow>();
  const waiting = new Map<JobId, PendingRequest>();
  for (const request of requests) add(request);
  return { size: () => waiting.size, add, remove, order };

  function add(request: PendingRequest): void {
    remove(request.jobId);
    waiting.set(request.jobId, request);
    const inClass = childOf(classes, classFlow(request), (flow) => ({
      ...flow,
      tenants: new Map<string, TenantFlow>(),
    }));
    const inTenant = childOf(inClass.tenants, tenantFlow(request), (flow) => ({
      ...flow,
      line: line(isBefore, kindOf),
    }));
    inTenant.line.add(request);
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
    inTenant.line.remove(request);
    if (!inTenant.line.isEmpty()) return;
    inClass.tenants.delete(inTenant.id);
    if (inClass.tenants.size === 0) classes.delete(inClass.id);
  }

  function order(nowMs: number, facts: QueueFacts): Turn {
    return turnOf(classes, (flow) => keyOf(flow, nowMs, facts));
  }
}

/** What the flow has received for its weight, and is about to receive. */
function keyOf({ id, weight }: Flow, nowMs: number, { service, runningGpus }: QueueFacts): number {
  const virtualSeconds = service?.flows.get(id)?.virtualSeconds ?? 0;
  const sinceSeconds = service === undefined ? 0 : Math.max(0, nowMs - service.atMs) / 1_000;
  const gpuCount = runningGpus.get(id) ?? 0;
  return virtualSeconds + ((sinceSeconds + HORIZON_SECONDS) * gpuCount) / weight;
}

/** priority − submittedAtMs / agingMs, larger first, written so that whole numbers stay whole. */
function bySeniority(agingMs: number): IsBefore<PendingRequest> {
  const bornAtMs = ({ submittedAtMs, priority }: PendingRequest): number =>
    submittedAtMs - priority * agingMs;
  return (a, b) => (bornAtMs(a) - bornAtMs(b) || byArrival(a, b)) < 0;
}

/** A flow in one turn: its key grows with what is granted in the turn. */
interface Runner {
  readonly flow: Flow;
  key: number;
}

interface TenantRunner extends Runner {
  readonly flow: TenantFlow;
  /** Through its line, from when it is first next. */
  walk?: LineWalk;
}

interface ClassRunner extends Runner {
  readonly flow: ClassFlow;
  /** Its tenants, from when it is first next. */
  race?: Heap<TenantRunner>;
}

function turnOf(classes: ReadonlyMap<string, ClassFlow>, keyNow: (flow: Flow) => number): Turn {
  const byClass = new Map<string, ClassRunner>();
  const byTenant = new Map<string, TenantRunner>();
  for (const flow of classes.values()) byClass.set(flow.id, { flow, key: keyNow(flow) });
  const race = heap<ClassRunner>(isAhead, byClass.values());
  return { next, noteGrant, dismiss, recall };

  function next(): PendingRequest | undefined {
    for (let first = race.peek(); first !== undefined; first = race.peek()) {
      const tenants = (first.race ??= tenantsOf(first.flow));
      for (let tenant = tenants.peek(); tenant !== undefined; tenant = tenants.peek()) {
        const walk = (tenant.walk ??= tenant.flow.line.walk());
        const request = walk.next();
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

  /** Who is out of the race had nobody left: those that were dismissed there would have been before whoever came since. */
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
