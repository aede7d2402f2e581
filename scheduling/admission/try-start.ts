/**
 * @file Starts one gang now, if the rules and the policy allow it: on which GPUs, and as which item of the plan.
 *
 * feasibility.ts decides whether and at which size, the placement policy on which of the GPUs that are free and reserved for no other job.
 * Cost: O(clusters) for the check, O(hosts) and the policy's own for the placement.
 */

import type { GpuNeed } from "../../domain/job/job-resources.ts";
import type { KeepersOf } from "../../domain/lease/kept-weights.ts";
import type { BandwidthNote } from "../../domain/lease/bandwidth-note.ts";
import type { BandwidthPredictor } from "../../domain/bandwidth/bandwidth-port.ts";
import type { MessagesOf } from "../../domain/bandwidth/sent-messages.ts";
import { byCodeUnit, clusterOf, type ClusterId, type HostId } from "../../domain/values/ids.ts";
import { gpuCountOf, type HostGpus, type Reservation } from "../../domain/lease/lease.ts";
import type { PendingRequest, PlanItem } from "../../domain/lease/plan.ts";
import { gbs } from "../../domain/values/units.ts";
import { withBeyond } from "./best-beyond.ts";
import { bandwidthFor, noteOfGiven, sendingOf } from "./bandwidth-notes.ts";
import type { Capacity } from "../capacity/capacity-state.ts";
import { budgetLeft, hostsOf, wattsLeft } from "../capacity/capacity.ts";
import { usableMask } from "../capacity/stranded-gpus.ts";
import { checkGrant, shapeOf } from "../ledger/rules/grant-check.ts";
import type { PoolHost } from "../capacity/host-pools.ts";
import {
  checkFeasibility,
  misfit,
  type ClusterFit,
  type CycleView,
  type Wait,
} from "./feasibility.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { leastThroughputFor } from "./least-throughput.ts";
import { WATTS_EPSILON } from "../ledger/rules/limits.ts";
import type { PickPorts } from "../pick/pick-policy.ts";
import { linkGbsOf } from "../placement/linked-set.ts";
import type {
  BandwidthPorts,
  GangTraining,
  LinkPorts,
  PlaceDemand,
  PlaceHost,
  PlacePolicy,
  PricePorts,
  WattsLeft,
} from "../placement/place-policy.ts";

/** Knowledge of `decide` beside the ledger. */
export interface DecidePorts extends PickPorts {
  /**
   * The bandwidth model that serves in a cluster, as the snapshot names it; undefined without one. It may throw, and so may its predictions:
   * then the compact answer stands, and the grant says why.
   */
  readonly predictorOf?: (cluster: ClusterId) => BandwidthPredictor | undefined;
  /** What jobs like one that does not say it send; absent: nothing was learned. */
  readonly messagesOf?: MessagesOf;
  /** The step of what a request trains on each of some places; `work` bounds the search for plans, in its own unit. It never throws. */
  readonly pricesOf?: (
    training: GangTraining,
    places: readonly (readonly HostGpus[])[],
    work: number,
  ) => { readonly stepMs: readonly (number | undefined)[]; readonly work: number };
  readonly keepersOf?: KeepersOf;
}

export interface StartContext {
  readonly snapshot: Pick<Ledger, "hosts">;
  readonly place: PlacePolicy;
  readonly ports: DecidePorts;
  /** For what starts now. Absent: no cluster has a bandwidth model. */
  readonly bandwidth?: BandwidthPorts;
  /** For what is told about better places; absent: nothing is. */
  readonly planning?: BandwidthPorts;
  /** Absent: no link between clusters is known. */
  readonly links?: LinkPorts;
  /** For what starts now. Absent: places have no prices. */
  readonly prices?: PricePorts;
}

export type Tried =
  Wait | { readonly kind: "grant"; readonly item: PlanItem; readonly work: number };

/** Of an array's request: one gang of it. `own`: its reservation; `why`: why it starts now, for people. */
export function tryStart(
  request: PendingRequest,
  view: CycleView,
  context: StartContext,
  { own, why = NEXT }: { readonly own?: Pick<Reservation, "kind">; readonly why?: string } = {},
): Tried {
  const fit = checkFeasibility(request, view, own);
  if (fit.kind === "wait") return fit;
  const hosts = freeHosts(fit.clusterFits, view.capacity);
  // Where there is no choice nobody is asked: the grant would wait for the answer.
  const keepers = hosts.length > 1 ? keepersFor(request, context.ports.keepersOf) : undefined;
  const demand = {
    ...demandOf(request, fit.gpus, view),
    ...(keepers !== undefined && { keepers }),
  };
  const placed = context.place(demand, hosts, {
    spread: view.capacity.spread,
    ...(context.bandwidth && { bandwidth: context.bandwidth }),
    ...(context.prices && { prices: context.prices }),
  });
  const { gpus, candidates, bandwidth } = placed;
  const work = fit.work + candidates;
  if (gpus === undefined) return misfit(work);
  const { planning } = context;
  const note =
    bandwidth && planning
      ? withBeyond(bandwidth, request, { view, gpus: fit.gpus, planning })
      : bandwidth;
  const won = {
    gpus,
    ...(request.slots !== undefined && { slots: 1 }),
    ...(note !== undefined && { bandwidth: note }),
    why: placed.why === undefined ? why : `${why}; ${placed.why}`,
  };
  return { kind: "grant", item: itemOf(request, won, view, context), work };
}

const NEXT = "next in the queue";

/** Only what runs on one host may be a model that Orbweaver serves. */
export const keepersFor = (
  { class: jobClass, constraints, slots, tenant, name }: PendingRequest,
  known: KeepersOf | undefined,
): ReadonlySet<HostId> | undefined =>
  jobClass === "inference" && constraints.isSameHost && slots === undefined
    ? known?.({ tenant, name })
    : undefined;

export function freeHosts(
  clusterFits: readonly ClusterFit[],
  capacity: Capacity,
): readonly PlaceHost[] {
  const hosts: PlaceHost[] = [];
  for (const { type } of clusterFits)
    for (const host of hostsOf(type)) {
      const free = type.need === undefined ? host : asFree(host, type.need, capacity);
      if (free.freeMask !== 0) hosts.push(free);
    }
  return hosts;
}

/** The host with the GPUs that the request may take now. */
export function asFree(
  host: PoolHost,
  need: GpuNeed | undefined,
  { usage: { uneven } }: Capacity,
): PlaceHost {
  if (need === undefined) return host;
  return { at: host.at, freeMask: usableMask(host, "open", { need, uneven }) };
}

export function demandOf(
  request: PendingRequest,
  gpus: number,
  { capacity, nowMs }: Pick<CycleView, "capacity" | "nowMs">,
): PlaceDemand {
  const { constraints } = request;
  const leastThroughput = leastThroughputFor(request, gpus, { capacity, nowMs });
  return {
    ...shapeOf(constraints),
    gpus,
    ...(leastThroughput !== undefined && { leastThroughput }),
    ...(constraints.prefer !== undefined && { prefer: constraints.prefer }),
    ...sendingOf(request),
    ...(constraints.training !== undefined && {
      training: { text: constraints.training, tenant: request.tenant },
    }),
    ...(capacity.index.hasWattsLimits && { wattsLeft: wattsOf(capacity) }),
  };
}

function wattsOf(capacity: Capacity): WattsLeft {
  const { budgets, clusters, places } = capacity.index;
  const budgetOf = (host: HostId, kind: "site" | "rack"): number => {
    const budget = places.get(host)?.budgets?.find(({ name }) => name.startsWith(`${kind} `));
    return budget === undefined ? Infinity : budgetLeft(capacity, budget) + WATTS_EPSILON;
  };
  return {
    cluster: ({ cluster }) => {
      const shape = clusters[cluster];
      return shape === undefined ? 0 : wattsLeft(capacity, shape) + WATTS_EPSILON;
    },
    ...(budgets.length > 0 && {
      site: ({ host }) => budgetOf(host, "site"),
      rack: ({ host }) => budgetOf(host, "rack"),
    }),
  };
}

/** The plan's item for these GPUs, checked by the rules of `apply`. */
export function itemOf(
  request: PendingRequest,
  won: Pick<PlanItem, "gpus" | "slots" | "bandwidth"> & { readonly why: string },
  { capacity: { index, usage, reserved }, nowMs }: CycleView,
  { snapshot, ports, bandwidth, links }: StartContext,
): PlanItem {
  const { gpus, slots, why } = won;
  const terms = { index, usage, reserved, hostStatuses: snapshot.hosts, nowMs };
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
    ? (won.bandwidth ??
      noteOfGiven(gpus, bandwidth && bandwidthFor(bandwidth, sendingOf(request))) ??
      noteOfLinks(gpus, links))
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

/** Only for a gang on one host: the tables do not say what the links between hosts carry. */
function predict(gpus: readonly HostGpus[], { bandwidthOf }: DecidePorts): number | undefined {
  const [only, ...others] = gpus;
  if (only === undefined || others.length > 0) return undefined;
  const predictedGBs = bandwidthOf?.(only.host, only.mask);
  return predictedGBs !== undefined && Number.isFinite(predictedGBs) ? predictedGBs : undefined;
}
