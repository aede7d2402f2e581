/**
 * @file One scheduling cycle: asks the queue who is next, and for each whether it starts now, where, and on which GPUs.
 *
 * A request that cannot start claims what it will need (judge.ts), and later ones may use the rest only. That is why nobody
 * starves while run times are bounded: let R be the first waiting request that fits `idle`. Nothing behind R is granted in the
 * clusters that it claims, nor out of the quota that it claims; the leases there end; so at the latest when they all have,
 * R fits, and starts. Then the next one is first. It holds as long as no earlier request keeps arriving and R's hosts stay up.
 * The price is the usual one of FIFO: GPUs stand idle behind a large gang. Requests that no end of a lease would help claim
 * nothing, so they delay nobody.
 * A job array stands in line with one gang, its first missing one, and claims for that one only. What is left when everybody had
 * a try, unclaimed, goes to the arrays that got theirs, in order (array-fill.ts); `apply` then sends what they still want to the
 * end of the line. So an array is never without its turn, and nobody waits behind more than one gang of it at a time.
 * Work is bounded by `limits`; what was not looked at waits for the next cycle, at most `RETRY_MS` away.
 * Cost: O(n log n) for the queue of n, O(n · clusters) to judge, O(hosts of the clusters) a grant.
 */

import type { JobId } from "../domain/ids.ts";
import { gpuCountOf } from "../domain/lease.ts";
import type { PendingReason } from "../domain/pending.ts";
import { MAX_PLAN_ITEMS, type PendingRequest, type Plan, type PlanItem } from "../domain/plan.ts";
import { asOneGang, fillArray, joinItem } from "./array-fill.ts";
import { occupy, openCapacity } from "./capacity.ts";
import { claimClusters, claimQuota, noClaims } from "./claims.ts";
import { noHolders, noteHolder } from "./holders.ts";
import type { Scene, WaitCode } from "./judge.ts";
import type { Ledger } from "./ledger.ts";
import { describeWait } from "./pending-reason.ts";
import type { Queue, QueueFacts, QueuePolicy } from "./queue/queue-policy.ts";
import { runningGpusOf } from "./service.ts";
import { tryStart, type DecidePorts, type StartPolicies } from "./start.ts";

export type { DecidePorts } from "./start.ts";

export interface Policies extends StartPolicies {
  readonly queue: QueuePolicy;
}

export interface CycleLimits {
  /** Offers and hosts that may be looked at. */
  readonly maxCandidates: number;
  /** Reasons in one plan: each is some hundred bytes of history. */
  readonly maxReasons: number;
  /** Requests at the head of the queue whose figures are kept fresh; the others are told of a new code only. */
  readonly freshReasons: number;
}

export interface CycleOptions {
  readonly policies: Policies;
  readonly ports: DecidePorts;
  readonly limits: CycleLimits;
  readonly method: Plan["stats"]["method"];
  /** Stop at this job's request and say why it waits. */
  readonly onlyFor?: JobId;
}

export interface Cycle {
  readonly plan: Plan;
  /** How many stand in line up to `onlyFor`, it included; absent when nobody was asked for. */
  readonly position?: number;
  /** Why `onlyFor` waits; absent when it would start, or was not reached. */
  readonly answer?: PendingReason;
}

/** Pause before what one cycle left out is looked at. */
const RETRY_MS = 1_000;

export function runCycle(snapshot: Ledger, nowMs: number, options: CycleOptions): Cycle {
  const { policies, ports, limits, method, onlyFor } = options;
  const scene = sceneOf(snapshot, nowMs);
  const turn = openQueue(snapshot, policies.queue).order(nowMs, factsOf(snapshot));
  const context = { snapshot, policies, ports };
  const items: PlanItem[] = [];
  const pending: { request: PlanItem["request"]; reason: PendingReason }[] = [];
  /** Arrays that got a gang and want more. */
  const unfilled: { readonly request: PendingRequest; readonly gang: PendingRequest }[] = [];
  let candidates = 0;
  let waiting = 0;
  let seen = 0;
  let wakeAtMs = Infinity;
  const isFull = (): boolean =>
    items.length >= MAX_PLAN_ITEMS || candidates >= limits.maxCandidates;
  const takeItem = (item: PlanItem, request: PendingRequest): void => {
    const { jobId, tenant } = request;
    joinItem(items, item);
    occupy(scene.capacity, tenant, item.gpus);
    turn.noteGrant(request, gpuCountOf(item.gpus));
    noteHolder(scene.holders, scene.capacity.index, { jobId, tenant, gpus: item.gpus });
  };
  const noteWait = (request: PendingRequest, code: WaitCode): void => {
    const { jobId, runId, seq } = request;
    const former = snapshot.reasons.get(jobId);
    if (onlyFor === undefined && (former?.code !== code || waiting < limits.freshReasons)) {
      if (pending.length >= limits.maxReasons) wakeAtMs = Math.min(wakeAtMs, nowMs + RETRY_MS);
      else {
        const reason = describeWait(request, code, scene);
        if (!isSame(reason, former)) pending.push({ request: { jobId, runId, seq }, reason });
      }
    }
    waiting += 1;
  };
  for (let request = turn.next(); request !== undefined; request = turn.next()) {
    const { jobId } = request;
    seen += 1;
    if (isFull()) {
      wakeAtMs = Math.min(wakeAtMs, nowMs + RETRY_MS);
      if (onlyFor === undefined || jobId === onlyFor) break;
      continue;
    }
    const gang = asOneGang(request, scene.capacity);
    const tried = tryStart(gang, scene, context);
    candidates += tried.work;
    if (tried.kind === "grant") {
      takeItem(tried.item, request);
      if (jobId === onlyFor) break;
      if ((request.slots ?? 1) > 1) unfilled.push({ request, gang });
      continue;
    }
    wakeAtMs = Math.min(wakeAtMs, tried.wakeAtMs ?? Infinity);
    if (jobId === onlyFor)
      return { plan: planOf(), position: seen, answer: describeWait(gang, tried.code, scene) };
    noteWait(gang, tried.code);
    claimClusters(scene.claims, jobId, tried.clusters);
    claimQuota(scene.claims, request, tried.quota);
  }
  if (onlyFor === undefined) {
    for (const { request, gang } of unfilled) {
      let slots = (request.slots ?? 1) - 1;
      while (slots > 0) {
        if (isFull()) {
          wakeAtMs = Math.min(wakeAtMs, nowMs + RETRY_MS);
          break;
        }
        const filled = fillArray(gang, slots, scene, context);
        candidates += filled.work;
        if (filled.kind === "wait") {
          noteWait(gang, filled.code);
          break;
        }
        takeItem(filled.item, request);
        slots -= filled.item.slots ?? 1;
      }
    }
  }
  return { plan: planOf(), ...(onlyFor !== undefined && { position: seen }) };

  function planOf(): Plan {
    return {
      items,
      pending,
      ...(wakeAtMs < Infinity && { wakeAtMs }),
      stats: { method, candidates },
    };
  }
}

const openQueue = ({ requests, shape }: Ledger, policy: QueuePolicy): Queue =>
  policy.open({
    requests: requests.values(),
    tenants: shape.tenants,
    ...(shape.policy !== undefined && { policy: shape.policy }),
  });

const factsOf = ({ service, leases }: Ledger): QueueFacts => ({
  ...(service !== undefined && { service }),
  runningGpus: runningGpusOf(leases.values()),
});

function sceneOf(snapshot: Ledger, nowMs: number): Scene {
  const capacity = openCapacity(snapshot);
  const holders = noHolders();
  for (const lease of snapshot.leases.values()) noteHolder(holders, capacity.index, lease);
  return { capacity, claims: noClaims(), holders, nowMs };
}

const isSame = (a: PendingReason, b: PendingReason | undefined): boolean =>
  JSON.stringify(a) === JSON.stringify(b);
