/**
 * @file Starts one gang now, if the rules and the policies let it: where, on which GPUs, and as which item of the plan.
 *
 * judge.ts says whether and at which size, the placement policy in which clusters, the pick policy on which GPUs of each.
 * Cost: O(clusters) for the verdict, O(hosts of the clusters chosen) for the pick.
 */

import { byCodeUnit, clusterOf } from "../domain/ids.ts";
import { gpuCountOf, type HostGpus } from "../domain/lease.ts";
import type { PendingRequest, PlanItem } from "../domain/plan.ts";
import { gbs } from "../domain/units.ts";
import { pickHosts, wattsLeft, type Capacity } from "./capacity.ts";
import { checkGrant } from "./feasibility.ts";
import { judge, misfit, type Scene, type Start, type Wait } from "./judge.ts";
import type { Ledger } from "./ledger.ts";
import { WATTS_EPSILON } from "./limits.ts";
import type { PickPolicy, PickPorts } from "./pick/pick-policy.ts";
import type { PlacementPolicy } from "./placement/placement-policy.ts";

/** What `decide` may know beside the ledger. */
export type DecidePorts = PickPorts;

export interface StartPolicies {
  readonly placement: PlacementPolicy;
  readonly pick: PickPolicy;
}

export interface StartContext {
  readonly snapshot: Ledger;
  readonly policies: StartPolicies;
  readonly ports: DecidePorts;
}

export type Tried =
  Wait | { readonly kind: "grant"; readonly item: PlanItem; readonly work: number };

/** Of an array's request: one gang of it. */
export function tryStart(request: PendingRequest, scene: Scene, context: StartContext): Tried {
  const verdict = judge(request, scene);
  if (verdict.kind === "wait") return verdict;
  const { gpus, work } = find(verdict, scene.capacity, context);
  if (gpus === undefined) {
    const failed = misfit(request, scene);
    return { ...failed, work: failed.work + work };
  }
  const item = itemOf(
    request,
    { gpus, ...(request.slots !== undefined && { slots: 1 }) },
    scene,
    context,
  );
  return { kind: "grant", item, work };
}

/** The plan's item for these GPUs; they are judged as `apply` will judge them. */
export function itemOf(
  request: PendingRequest,
  won: Pick<PlanItem, "gpus" | "slots">,
  { capacity: { index, usage }, nowMs }: Scene,
  { snapshot, ports }: StartContext,
): PlanItem {
  const { gpus, slots } = won;
  const problem = checkGrant(request, won, { index, usage, standings: snapshot.hosts, nowMs });
  if (problem !== undefined) {
    throw new Error(
      `a policy made a grant that apply would refuse: ${problem.code}, ${problem.message}`,
    );
  }
  const { jobId, runId, seq, gang } = request;
  const predictedGBs = slots === undefined || slots === 1 ? predict(gpus, ports) : undefined;
  const what =
    slots === undefined
      ? `${gpuCountOf(gpus)} of ${gang.gpus} GPUs`
      : `${slots} of ${request.slots ?? slots} gangs of ${gang.gpus}`;
  return {
    kind: "grant",
    request: { jobId, runId, seq },
    ...(slots !== undefined && { slots }),
    gpus,
    ...(predictedGBs !== undefined && { predictedGBs: gbs(predictedGBs) }),
    reason: `${what} in ${sitesOf(gpus)}: next in the queue`,
  };
}

interface Found {
  readonly gpus?: readonly HostGpus[];
  readonly work: number;
}

function find(
  { demand, offers, types, work: judged }: Start,
  capacity: Capacity,
  { policies, ports }: StartContext,
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
