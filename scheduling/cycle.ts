/**
 * @file One scheduling cycle: asks the queue who is next, and for each whether it starts now, where, and on which GPUs.
 *
 * A request that cannot start claims what it will need (judge.ts), and later ones may use the rest only. That is why nobody
 * starves while run times are bounded: let R be the first waiting request that fits `idle`. Nothing behind R is granted in the
 * clusters that it claims, nor out of the quota that it claims; the leases there end; so at the latest when they all have,
 * R fits, and starts. Then the next one is first. It holds as long as no earlier request keeps arriving and R's hosts stay up.
 * The price is the usual one of FIFO: GPUs stand idle behind a large gang. Requests that no end of a lease would help claim
 * nothing, so they delay nobody.
 * Work is bounded by `limits`; what was not looked at waits for the next cycle, at most `RETRY_MS` away.
 * Cost: O(n log n) for the queue of n, O(n · clusters) to judge, O(hosts of the clusters) a grant.
 */

import { byCodeUnit, clusterOf, type JobId } from "../domain/ids.ts";
import type { HostGpus } from "../domain/lease.ts";
import type { PendingReason } from "../domain/pending.ts";
import { MAX_PLAN_ITEMS, type PendingRequest, type Plan, type PlanItem } from "../domain/plan.ts";
import { gbs } from "../domain/units.ts";
import { occupy, openCapacity, pickHosts, wattsLeft, type Capacity } from "./capacity.ts";
import { claimClusters, claimQuota, noClaims } from "./claims.ts";
import { checkGrant } from "./feasibility.ts";
import { noHolders, noteHolder } from "./holders.ts";
import { judge, misfit, type Scene, type Start, type Wait } from "./judge.ts";
import type { Ledger } from "./ledger.ts";
import { WATTS_EPSILON } from "./limits.ts";
import { describeWait } from "./pending-reason.ts";
import type { PickPolicy, PickPorts } from "./pick/pick-policy.ts";
import type { PlacementPolicy } from "./placement/placement-policy.ts";
import type { QueuePolicy } from "./queue/queue-policy.ts";

/** What `decide` may know beside the ledger. */
export type DecidePorts = PickPorts;

export interface Policies {
  readonly queue: QueuePolicy;
  readonly placement: PlacementPolicy;
  readonly pick: PickPolicy;
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
  readonly order: readonly PendingRequest[];
  /** Why `onlyFor` waits; absent when it would start, or was not reached. */
  readonly answer?: PendingReason;
}

/** Pause before what one cycle left out is looked at. */
const RETRY_MS = 1_000;

export function runCycle(snapshot: Ledger, nowMs: number, options: CycleOptions): Cycle {
  const { policies, ports, limits, method, onlyFor } = options;
  const order = policies.queue(
    {
      requests: snapshot.requests.values(),
      tenants: snapshot.shape.tenants,
      leases: snapshot.leases.values(),
    },
    nowMs,
  );
  const scene = sceneOf(snapshot, nowMs);
  const items: PlanItem[] = [];
  const pending: { request: PlanItem["request"]; reason: PendingReason }[] = [];
  let candidates = 0;
  let waiting = 0;
  let wakeAtMs = Infinity;
  for (const request of order) {
    if (items.length >= MAX_PLAN_ITEMS || candidates >= limits.maxCandidates) {
      wakeAtMs = Math.min(wakeAtMs, nowMs + RETRY_MS);
      break;
    }
    const { jobId, runId, seq, tenant } = request;
    const tried = tryStart(request, scene, { snapshot, policies, ports });
    candidates += tried.work;
    if (tried.kind === "grant") {
      items.push(tried.item);
      occupy(scene.capacity, tenant, tried.item.gpus);
      noteHolder(scene.holders, scene.capacity.index, { jobId, tenant, gpus: tried.item.gpus });
      if (jobId === onlyFor) break;
      continue;
    }
    wakeAtMs = Math.min(wakeAtMs, tried.wakeAtMs ?? Infinity);
    const describe = (): PendingReason => describeWait(request, tried.code, scene);
    if (jobId === onlyFor) return { plan: planOf(), order, answer: describe() };
    const former = snapshot.reasons.get(jobId);
    if (onlyFor === undefined && (former?.code !== tried.code || waiting < limits.freshReasons)) {
      if (pending.length >= limits.maxReasons) wakeAtMs = Math.min(wakeAtMs, nowMs + RETRY_MS);
      else {
        const reason = describe();
        if (!isSame(reason, former)) pending.push({ request: { jobId, runId, seq }, reason });
      }
    }
    waiting += 1;
    claimClusters(scene.claims, jobId, tried.clusters);
    claimQuota(scene.claims, request, tried.quota);
  }
  return { plan: planOf(), order };

  function planOf(): Plan {
    return {
      items,
      pending,
      ...(wakeAtMs < Infinity && { wakeAtMs }),
      stats: { method, candidates },
    };
  }
}

function sceneOf(snapshot: Ledger, nowMs: number): Scene {
  const capacity = openCapacity(snapshot);
  const holders = noHolders();
  for (const lease of snapshot.leases.values()) noteHolder(holders, capacity.index, lease);
  return { capacity, claims: noClaims(), holders, nowMs };
}

type Tried = Wait | { readonly kind: "grant"; readonly item: PlanItem; readonly work: number };

function tryStart(
  request: PendingRequest,
  scene: Scene,
  context: { readonly snapshot: Ledger; readonly policies: Policies; readonly ports: DecidePorts },
): Tried {
  const verdict = judge(request, scene);
  if (verdict.kind === "wait") return verdict;
  const { gpus, work } = find(verdict, scene.capacity, context);
  if (gpus === undefined) {
    const failed = misfit(request, scene);
    return { ...failed, work: failed.work + work };
  }
  const { capacity, nowMs } = scene;
  const { index, usage } = capacity;
  const problem = checkGrant(request, gpus, {
    index,
    usage,
    standings: context.snapshot.hosts,
    nowMs,
  });
  if (problem !== undefined) {
    throw new Error(
      `a policy made a grant that apply would refuse: ${problem.code}, ${problem.message}`,
    );
  }
  const { jobId, runId, seq } = request;
  const predictedGBs = predict(gpus, context.ports);
  const item: PlanItem = {
    kind: "grant",
    request: { jobId, runId, seq },
    gpus,
    ...(predictedGBs !== undefined && { predictedGBs: gbs(predictedGBs) }),
    reason: `${verdict.demand.gpus} of ${request.gang.gpus} GPUs in ${sitesOf(gpus)}: next in the queue`,
  };
  return { kind: "grant", item, work };
}

interface Found {
  readonly gpus?: readonly HostGpus[];
  readonly work: number;
}

function find(
  { demand, offers, types, work: judged }: Start,
  capacity: Capacity,
  { policies, ports }: { readonly policies: Policies; readonly ports: DecidePorts },
): Found {
  const { placement, candidates } = policies.placement(demand, offers);
  let work = judged + candidates;
  const type = types.find(({ gpuType }) => gpuType === placement?.gpuType);
  if (placement === undefined || type === undefined) return { work };
  const gpus: HostGpus[] = [];
  for (const part of placement.parts) {
    const group = type.groups.find(({ cluster }) => cluster.id === part.cluster);
    if (group === undefined) return { work };
    const left = wattsLeft(capacity, group.cluster) + WATTS_EPSILON;
    const wish = { gpus: part.gpus, isSameHost: demand.isSameHost, wattsLeft: left };
    const picked = policies.pick(wish, pickHosts(type, part.cluster), ports);
    work += picked.candidates;
    if (picked.gpus === undefined) return { work };
    gpus.push(...picked.gpus);
  }
  return { gpus: gpus.sort((a, b) => byCodeUnit(a.host, b.host)), work };
}

const sitesOf = (gpus: readonly HostGpus[]): string =>
  [...new Set(gpus.map(({ host }) => clusterOf(host)))].join(", ");

/** Only where the gang is on one host: what the links between hosts carry is not in these tables. */
function predict(gpus: readonly HostGpus[], { bandwidthOf }: DecidePorts): number | undefined {
  const [only, ...others] = gpus;
  if (only === undefined || others.length > 0) return undefined;
  const predictedGBs = bandwidthOf?.(only.host, only.mask);
  return predictedGBs !== undefined && Number.isFinite(predictedGBs) ? predictedGBs : undefined;
}

const isSame = (a: PendingReason, b: PendingReason | undefined): boolean =>
  JSON.stringify(a) === JSON.stringify(b);
