/**
 * @file Starts one gang now, if the rules and the policy let it: on which GPUs, and as which item of the plan.
 *
 * judge.ts says whether and at which size, the placement policy on which of the GPUs that are free and set apart for nobody.
 * Cost: O(clusters) for the verdict, O(hosts) and the policy's own for the placement.
 */

import type { BandwidthNote } from "../domain/bandwidth-note.ts";
import type { BandwidthPredictor } from "../domain/bandwidth-port.ts";
import { byCodeUnit, clusterOf, type ClusterId, type HostId } from "../domain/ids.ts";
import { gpuCountOf, type HostGpus, type Reservation } from "../domain/lease.ts";
import type { PendingRequest, PlanItem } from "../domain/plan.ts";
import { gbs } from "../domain/units.ts";
import { noteOfGiven } from "./bandwidth-place.ts";
import { budgetLeft, hostsOf, wattsLeft, type Capacity } from "./capacity.ts";
import { checkGrant, shapeOf } from "./feasibility.ts";
import type { PoolHost } from "./host-pools.ts";
import { judge, misfit, type Prospect, type Scene, type Wait } from "./judge.ts";
import type { Ledger } from "./ledger.ts";
import { WATTS_EPSILON } from "./limits.ts";
import type { PickPorts } from "./pick/pick-policy.ts";
import { linkGbsOf } from "./placement/linked-set.ts";
import type {
  BandwidthPorts,
  LinkPorts,
  PlaceDemand,
  PlaceHost,
  PlacePolicy,
} from "./placement/place-policy.ts";

/** What `decide` may know beside the ledger. */
export interface DecidePorts extends PickPorts {
  /**
   * The bandwidth model that serves in a cluster, as the snapshot names it; absent where none does. It may throw, and so may its predictions:
   * then the compact answer has to do, and the grant says why.
   */
  readonly predictorOf?: (cluster: ClusterId) => BandwidthPredictor | undefined;
}

export interface StartContext {
  readonly snapshot: Pick<Ledger, "hosts">;
  readonly place: PlacePolicy;
  readonly ports: DecidePorts;
  /** Absent: no cluster has a bandwidth model. */
  readonly bandwidth?: BandwidthPorts;
  /** Absent: no link between clusters is known. */
  readonly links?: LinkPorts;
}

export type Tried =
  Wait | { readonly kind: "grant"; readonly item: PlanItem; readonly work: number };

/** Of an array's request: one gang of it. `own` is what is set apart for it, `why` a word on why it is its turn. */
export function tryStart(
  request: PendingRequest,
  scene: Scene,
  context: StartContext,
  { own, why = NEXT }: { readonly own?: Pick<Reservation, "kind">; readonly why?: string } = {},
): Tried {
  const verdict = judge(request, scene, own);
  if (verdict.kind === "wait") return verdict;
  const hosts = freeHosts(verdict.prospects);
  const { gpus, candidates, bandwidth } = context.place(
    demandOf(request, verdict.gpus, scene.capacity),
    hosts,
    { spread: scene.capacity.spread, ...(context.bandwidth && { bandwidth: context.bandwidth }) },
  );
  const work = verdict.work + candidates;
  if (gpus === undefined) return misfit(work);
  const won = {
    gpus,
    ...(request.slots !== undefined && { slots: 1 }),
    ...(bandwidth !== undefined && { bandwidth }),
    why,
  };
  return { kind: "grant", item: itemOf(request, won, scene, context), work };
}

const NEXT = "next in the queue";

export function freeHosts(prospects: readonly Prospect[]): readonly PlaceHost[] {
  const hosts: PoolHost[] = [];
  for (const { type } of prospects)
    for (const host of hostsOf(type)) if (host.freeMask !== 0) hosts.push(host);
  return hosts;
}

export function demandOf(
  { constraints }: PendingRequest,
  gpus: number,
  capacity: Capacity,
): PlaceDemand {
  const { clusters, places } = capacity.index;
  const budgetOf = (host: HostId, kind: "site" | "rack"): number => {
    const budget = places.get(host)?.budgets?.find(({ name }) => name.startsWith(`${kind} `));
    return budget === undefined ? Infinity : budgetLeft(capacity, budget) + WATTS_EPSILON;
  };
  return {
    ...shapeOf(constraints),
    gpus,
    ...(constraints.prefer !== undefined && { prefer: constraints.prefer }),
    wattsLeft: {
      cluster: ({ cluster }) => {
        const shape = clusters[cluster];
        return shape === undefined ? 0 : wattsLeft(capacity, shape) + WATTS_EPSILON;
      },
      ...(capacity.index.budgets.length > 0 && {
        site: ({ host }) => budgetOf(host, "site"),
        rack: ({ host }) => budgetOf(host, "rack"),
      }),
    },
  };
}

/** The plan's item for these GPUs; they are judged as `apply` will judge them. */
export function itemOf(
  request: PendingRequest,
  won: Pick<PlanItem, "gpus" | "slots" | "bandwidth"> & { readonly why: string },
  { capacity: { index, usage, reserved }, nowMs }: Scene,
  { snapshot, ports, bandwidth, links }: StartContext,
): PlanItem {
  const { gpus, slots, why } = won;
  const terms = { index, usage, reserved, standings: snapshot.hosts, nowMs };
  const problem = checkGrant(request, won, terms);
  if (problem !== undefined) {
    throw new Error(
      `a policy made a grant that apply would refuse: ${problem.code}, ${problem.message}`,
    );
  }
  const { jobId, runId, seq, gang } = request;
  const isOneGang = slots === undefined || slots === 1;
  const predictedGBs = isOneGang ? predict(gpus, ports) : undefined;
  const note = isOneGang
    ? (won.bandwidth ?? noteOfGiven(gpus, bandwidth) ?? noteOfLinks(gpus, links))
    : undefined;
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
    ...(note !== undefined && { bandwidth: note }),
    reason: `${what} in ${sitesOf(gpus)}: ${why}`,
  };
}

/** Of a gang over several clusters. */
function noteOfLinks(
  gpus: readonly HostGpus[],
  links: LinkPorts | undefined,
): BandwidthNote | undefined {
  if (links === undefined) return undefined;
  const linkGbs = linkGbsOf(links.clustersOf(gpus), links);
  if (linkGbs === undefined) return undefined;
  const clusters = [...new Set(gpus.map(({ host }) => clusterOf(host)))].sort(byCodeUnit);
  return { method: "compact", links: { clusters, bottleneckGbs: linkGbs } };
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
