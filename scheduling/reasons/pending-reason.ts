/**
 * @file Says why a request waits: the figures, the jobs that hold the GPUs, the events that would wake it, and changes its owner could make.
 *
 * Figures are of one GPU type, the one that comes nearest to the request. Messages give subject, need, found, remedy.
 * Cost: O(clusters); once a cycle and type O(hosts) where hosts are missing.
 */

import { gpuCountOf } from "../../domain/lease/lease.ts";
import type { PendingReason, WakeEvent } from "../../domain/lease/pending.ts";
import type { PendingRequest } from "../../domain/lease/plan.ts";
import { timeText } from "../../domain/values/wall-time.ts";
import type { Level } from "../capacity/capacity-state.ts";
import {
  hinderedHosts,
  idleGpusOf,
  largestAt,
  offersAt,
  type HostsByOutage,
} from "../capacity/capacity.ts";
import { quotaClaim } from "../admission/quota-claims.ts";
import { closedHosts } from "./closed-hosts.ts";
import { canShrink, shapeOf, shrinkAtMs, type Outage } from "../ledger/rules/grant-check.ts";
import {
  freeGpus,
  isHopeless,
  fitsOf,
  type ClusterFit,
  type CycleView,
  type WaitCode,
} from "../admission/feasibility.ts";
import { quotaLimit } from "../ledger/rules/limits.ts";
import { byMostGpus, type ClusterOffer } from "../placement/placement-policy.ts";
import { deadPairs } from "../capacity/site-links.ts";
import { evictingFor, holdersOf, type ReasonContext } from "./blocking-jobs.ts";
import { heldUnder } from "../ledger/rules/usage.ts";
import { needOf } from "./need-words.ts";

const MAX_NAMED_LINKS = 3;

export function describeWait(
  request: PendingRequest,
  code: WaitCode,
  view: ReasonContext,
): PendingReason {
  const clusterFits = fitsOf(request, view);
  const best = bestFit(clusterFits, code, view);
  const evicting = code === "WaitingForPreempted" ? evictingFor(request, view) : [];
  const figures = {
    ...figuresOf(request, best, view),
    ...(code === "NoMatchingFlavor" && best !== undefined && wider(request, best, view)),
    comingGpus: evicting.reduce((sum, { gpus }) => sum + gpuCountOf(gpus), 0),
    ...(code === "WaitingForHosts" &&
      best !== undefined && { hostsByOutage: hinderedHosts(best.type) }),
    ...(code === "WaitingForReplacement" && keptFor(request, view)),
  };
  const { message, numbers, wakeOn } = TEXTS[code](request, figures);
  const closed = isHopeless(code) ? undefined : closedHosts(request, clusterFits, view);
  const isTimed =
    closed?.isTimed === true || (canShrink(request.gang) && view.nowMs < shrinkAtMs(request));
  return {
    code,
    message: `${request.jobId} ${message}${closed?.text ?? ""}${linksOut(request, view)}`,
    numbers: { ...numbers, ...closed?.numbers },
    holders: holdersOf(request, code, { context: view, clusterFits, evicting }),
    wakeOn: isTimed && !isHopeless(code) ? [...wakeOn, "timer"] : wakeOn,
  };
}

/** Links that a gang over several clusters could not use now. */
function linksOut({ constraints }: PendingRequest, { snapshot, nowMs }: ReasonContext): string {
  if (shapeOf(constraints).maxClusters <= 1) return "";
  const dead = [...deadPairs(snapshot, nowMs)].map((pair) => pair.replace(" ", " – "));
  if (dead.length === 0) return "";
  const more = dead.length > MAX_NAMED_LINKS ? ", …" : "";
  return ` No gang lies over links that are out: ${dead.slice(0, MAX_NAMED_LINKS).join(", ")}${more}.`;
}

/** What is kept for a gang that has lost a host. */
function keptFor({ jobId }: PendingRequest, { snapshot }: ReasonContext): Pick<Figures, "kept"> {
  const { gpus = [], untilMs = 0 } = snapshot.reservations?.get(jobId) ?? {};
  return { kept: { gpus: gpuCountOf(gpus), hosts: gpus.length, untilMs } };
}

/** For a request that no cycle has looked at yet. */
export const notNominated = (request: PendingRequest): PendingReason => ({
  code: "PendingEvaluation",
  message: `${request.jobId} has not been looked at yet; the next scheduling cycle does it.`,
  numbers: {},
  holders: [],
  wakeOn: ["timer"],
});

/** The type that comes nearest to the request at the level of the code; ties in the fleet's order. */
function bestFit(
  clusterFits: readonly ClusterFit[],
  code: WaitCode,
  { capacity }: CycleView,
): ClusterFit | undefined {
  const isOfQuota = code === "ExceedsMaxQuota" || code === "WaitingForQuota";
  const candidates = isOfQuota ? clusterFits.filter(({ quotaKey }) => quotaKey) : clusterFits;
  let best: { readonly fit: ClusterFit; readonly near: number; readonly ever: number } | undefined;
  for (const fit of candidates) {
    const { type } = fit;
    const ever = largestAt(capacity, type, "ever");
    const level = NEARNESS[code];
    const near = level === "free" ? freeGpus(capacity, type) : largestAt(capacity, type, level);
    if (best === undefined || near > best.near || (near === best.near && ever > best.ever)) {
      best = { fit, near, ever };
    }
  }
  return best?.fit;
}

const NEARNESS: Readonly<Record<WaitCode, Level | "free">> = {
  NoMatchingFlavor: "ever",
  ExceedsMaxQuota: "ever",
  WaitingForHosts: "idle",
  WaitingForQuota: "idle",
  WaitingForPreempted: "unleased",
  BehindEarlierJob: "unleased",
  WaitingForPower: "unpowered",
  WaitingForResources: "free",
  TopologyPlacementFailed: "free",
  WaitingForGpus: "free",
  WaitingForReplacement: "free",
};

interface Figures {
  /** For `WaitingForReplacement`. */
  readonly kept?: { readonly gpus: number; readonly hosts: number; readonly untilMs: number };
  readonly need: string;
  readonly gpuType: string;
  readonly needGpus: number;
  readonly fleetGpus: number;
  readonly largestEverGpus: number;
  readonly largestIdleGpus: number;
  readonly largestNowGpus: number;
  readonly freeGpus: number;
  readonly largestFreeHostGpus: number;
  /** In no lease, on hosts that accept new work. */
  readonly idleGpus: number;
  /** The same, with enough of their hosts' processors and memory, together. */
  readonly largestUnleasedGpus: number;
  readonly cpusForGpu?: number;
  readonly memoryGiBForGpu?: number;
  readonly quotaGpus: number;
  /** The tenant's own part of the quota; it may borrow the rest. */
  readonly ownGpus: number;
  readonly heldGpus: number;
  /** GPUs that earlier jobs of the tenant claim. */
  readonly claimedGpus: number;
  readonly quotaKey: string;
  /** GPUs that other jobs are giving up for it. */
  readonly comingGpus?: number;
  /** The number of clusters that would hold the gang, if it is more than the gang may span. */
  readonly clustersToFit?: number;
  /** Hosts on which no new work may start, where hosts are missing. */
  readonly hostsByOutage?: HostsByOutage;
}

function figuresOf(
  request: PendingRequest,
  best: ClusterFit | undefined,
  view: CycleView,
): Figures {
  const { capacity } = view;
  const { tenant, gang } = request;
  const needGpus = gang.gpus;
  const { cpus: cpusForGpu, memoryGiB: memoryGiBForGpu } = request.constraints.resources ?? {};
  const base = {
    need: needOf(request),
    needGpus,
    ...(cpusForGpu !== undefined && { cpusForGpu }),
    ...(memoryGiBForGpu !== undefined && { memoryGiBForGpu }),
  };
  if (best === undefined) return { ...base, ...NOTHING };
  const { type, quotaKey, limit } = best;
  const rule = quotaLimit(capacity.index.tenants.get(tenant), type.gpuType);
  const unpowered = offersAt(capacity, type, "unpowered");
  return {
    ...base,
    gpuType: type.gpuType,
    fleetGpus: offersAt(capacity, type, "ever").reduce((sum, { gpus }) => sum + gpus, 0),
    largestEverGpus: largestAt(capacity, type, "ever"),
    largestIdleGpus: largestAt(capacity, type, "idle"),
    largestNowGpus: largestAt(capacity, type, "now"),
    freeGpus: freeGpus(capacity, type),
    largestFreeHostGpus: Math.max(0, ...unpowered.map(({ largestHostGpus }) => largestHostGpus)),
    idleGpus: idleGpusOf(type),
    largestUnleasedGpus: largestAt(capacity, type, "unpowered"),
    quotaGpus: Number.isFinite(limit) ? limit : -1,
    ownGpus: rule?.ownGpus ?? -1,
    claimedGpus: quotaKey === undefined ? 0 : quotaClaim(view.claims, tenant, quotaKey).gpus,
    quotaKey: quotaKey === undefined || quotaKey === "*" ? "GPUs" : quotaKey,
    heldGpus: quotaKey === undefined ? 0 : heldUnder(capacity.usage, tenant, quotaKey),
  };
}

function wider(
  request: PendingRequest,
  { type }: ClusterFit,
  { capacity }: CycleView,
): Pick<Figures, "clustersToFit"> {
  const clustersToFit = clustersFor(request, offersAt(capacity, type, "ever"));
  return clustersToFit === undefined ? {} : { clustersToFit };
}

/** The fewest clusters that hold the gang; undefined when none do, or when its shape keeps it in one. */
function clustersFor(
  { gang, constraints }: PendingRequest,
  offers: readonly ClusterOffer[],
): number | undefined {
  const { isSameHost, isSameFabric, maxClusters = 1 } = constraints;
  if (isSameHost || isSameFabric) return undefined;
  let gpus = 0;
  for (const [index, offer] of byMostGpus(offers).entries()) {
    gpus += offer.gpus;
    if (gpus >= gang.gpus) return index < maxClusters ? undefined : index + 1;
  }
  return undefined;
}

const NOTHING = {
  gpuType: "GPUs",
  fleetGpus: 0,
  largestEverGpus: 0,
  largestIdleGpus: 0,
  largestNowGpus: 0,
  freeGpus: 0,
  largestFreeHostGpus: 0,
  idleGpus: 0,
  largestUnleasedGpus: 0,
  quotaGpus: -1,
  ownGpus: -1,
  heldGpus: 0,
  claimedGpus: 0,
  quotaKey: "GPUs",
};

interface Text {
  readonly message: string;
  readonly numbers: PendingReason["numbers"];
  readonly wakeOn: readonly WakeEvent[];
}

const TEXTS: Readonly<Record<WaitCode, (request: PendingRequest, figures: Figures) => Text>> = {
  NoMatchingFlavor: (
    _request,
    { need, needGpus, largestEverGpus, fleetGpus, gpuType, clustersToFit },
  ) => ({
    message:
      clustersToFit === undefined
        ? `needs ${need}; this fleet has ${fleetGpus} ${gpuType} that match, and ${largestEverGpus} together at most. Change the constraints or the gang, or add hosts.`
        : `needs ${need}; this fleet has ${fleetGpus} ${gpuType} that match, but ${largestEverGpus} in as many clusters as the gang may span. Set constraints.maxClusters to ${clustersToFit} or more, lower the gang, or add hosts.`,
    numbers: { needGpus, fleetGpus, largestEverGpus },
    wakeOn: ["fleet-changed", "job-resized"],
  }),
  ExceedsMaxQuota: ({ tenant }, { need, needGpus, quotaGpus, gpuType }) => ({
    message: `needs ${need}; tenant ${tenant} may hold ${quotaGpus} ${gpuType} at most. Lower gang.gpus or gang.min, or raise the quota.`,
    numbers: { needGpus, quotaGpus },
    wakeOn: ["fleet-changed", "job-resized"],
  }),
  WaitingForHosts: (_request, figures) => {
    const { need, needGpus, largestEverGpus, largestIdleGpus, hostsByOutage = NO_HOSTS } = figures;
    const { found, remedy, numbers } = hostConditionText(hostsByOutage);
    return {
      message: `needs ${need}; the hosts that answer and are not drained hold ${largestIdleGpus} together at most, all hosts ${largestEverGpus}${found}. ${remedy}.`,
      numbers: { needGpus, largestIdleGpus, largestEverGpus, ...numbers },
      wakeOn: ["host-ready", "fleet-changed"],
    };
  },
  WaitingForQuota: ({ tenant }, figures) => {
    const { need, needGpus, quotaGpus, ownGpus, heldGpus, claimedGpus, quotaKey } = figures;
    const borrowable = quotaGpus - ownGpus;
    const may =
      borrowable > 0
        ? `${quotaGpus} ${quotaKey} (${ownGpus} its own, ${borrowable} borrowed)`
        : `${quotaGpus} ${quotaKey}`;
    const claimed = claimedGpus > 0 ? `, and its earlier jobs wait for ${claimedGpus}` : "";
    const awaited = Math.max(1, needGpus - (quotaGpus - heldGpus - claimedGpus));
    return {
      message: `needs ${need}; tenant ${tenant} holds ${heldGpus} of the ${may} that it may hold${claimed}. Wait until ${awaited} of them ${awaited === 1 ? "is" : "are"} given back, cancel one of its jobs, or raise the quota.`,
      numbers: {
        needGpus,
        quotaGpus,
        heldGpus,
        ...(borrowable > 0 && { ownGpus }),
        ...(claimedGpus > 0 && { claimedGpus }),
      },
      wakeOn: ["lease-released", "fleet-changed", "earlier-job-started"],
    };
  },
  WaitingForPreempted: (_request, { need, needGpus, freeGpus: free, comingGpus = 0 }) => ({
    message: `needs ${need}; other jobs are giving up ${comingGpus} GPUs for it. It starts when they have written their checkpoints and stopped.`,
    numbers: { needGpus, comingGpus, freeGpus: free },
    wakeOn: ["lease-released"],
  }),
  BehindEarlierJob: (_request, { need, needGpus, freeGpus: free, gpuType }) => ({
    message: `needs ${need}, and ${free} ${gpuType} are free, but they are reserved for earlier jobs. Wait for those to start, state a shorter time limit, or allow other clusters.`,
    numbers: { needGpus, freeGpus: free },
    wakeOn: ["earlier-job-started", "lease-released", "host-ready"],
  }),
  WaitingForPower: (_request, { need, needGpus, freeGpus: free, gpuType, largestNowGpus }) => ({
    message: `needs ${need}; ${free} ${gpuType} are free, but power and cooling allow a gang of ${largestNowGpus} now. Wait for a lease to end, or raise the budget.`,
    numbers: { needGpus, freeGpus: free, largestNowGpus },
    wakeOn: ["lease-released", "fleet-changed"],
  }),
  WaitingForResources: (
    _request,
    { need, needGpus, idleGpus, largestUnleasedGpus, gpuType, cpusForGpu, memoryGiBForGpu },
  ) => ({
    message: `needs ${need}; ${idleGpus} ${gpuType} are idle, but the processors and memory of their hosts that other jobs leave allow a gang of ${largestUnleasedGpus}. Wait for leases to end, or ask for less in resources.`,
    numbers: {
      needGpus,
      idleGpus,
      largestUnleasedGpus,
      ...(cpusForGpu !== undefined && { cpusForGpu }),
      ...(memoryGiBForGpu !== undefined && { memoryGiBForGpu }),
    },
    wakeOn: ["lease-released", "host-ready", "fleet-changed", "job-resized"],
  }),
  TopologyPlacementFailed: (_request, figures) => {
    const {
      need,
      needGpus,
      freeGpus: free,
      gpuType,
      largestNowGpus,
      largestFreeHostGpus,
    } = figures;
    return {
      message: `needs ${need}; ${free} ${gpuType} are free, but not in this shape: ${largestNowGpus} together, ${largestFreeHostGpus} on one host. Allow more clusters or hosts, lower gang.min, or wait.`,
      numbers: { needGpus, freeGpus: free, largestNowGpus, largestFreeHostGpus },
      wakeOn: ["lease-released", "host-ready", "job-resized"],
    };
  },
  WaitingForReplacement: (
    _request,
    { need, needGpus, freeGpus: free, gpuType, kept = { gpus: 0, hosts: 0, untilMs: 0 } },
  ) => ({
    message: `needs ${need} and has lost a host; ${kept.gpus} GPUs on ${kept.hosts} of its hosts are kept for it until ${timeText(kept.untilMs)}, and ${needGpus - kept.gpus} more ${gpuType} are looked for in the same cluster. Add or undrain a host there, wait for leases to end, or lower gang.min.`,
    numbers: {
      needGpus,
      keptGpus: kept.gpus,
      keptHosts: kept.hosts,
      keptUntilMs: kept.untilMs,
      freeGpus: free,
    },
    wakeOn: ["host-ready", "lease-released", "timer"],
  }),
  WaitingForGpus: (
    _request,
    { need, needGpus, freeGpus: free, gpuType, largestNowGpus, fleetGpus },
  ) => ({
    message: `needs ${need}; ${free} of ${fleetGpus} matching ${gpuType} are free, ${largestNowGpus} together. Wait for leases to end, or lower gang.min.`,
    numbers: { needGpus, freeGpus: free, largestNowGpus, fleetGpus },
    wakeOn: ["lease-released", "host-ready"],
  }),
};

/** `: 2 silent (eu-1/h1, eu-1/h2), 1 drained (eu-1/h3), 4 without agent (…)`, and the remedy. */
function hostConditionText(hostsByOutage: HostsByOutage): {
  readonly found: string;
  readonly remedy: string;
  readonly numbers: PendingReason["numbers"];
} {
  const kinds = HOST_CONDITIONS.flatMap((kind) => {
    const hosts = hostsByOutage.get(kind.outage) ?? [];
    return hosts.length === 0 ? [] : [{ ...kind, hosts }];
  });
  const texts = kinds.map(({ words, hosts }) => {
    const more = hosts.length > MAX_NAMED_HOSTS ? ["…"] : [];
    return `${hosts.length} ${words} (${[...hosts.slice(0, MAX_NAMED_HOSTS), ...more].join(", ")})`;
  });
  const remedies = kinds.map(({ remedy }) => remedy).join(", or ");
  return {
    found: texts.length === 0 ? "" : `: ${texts.join(", ")}`,
    remedy: remedies === "" ? "Add hosts" : remedies.charAt(0).toUpperCase() + remedies.slice(1),
    numbers: Object.fromEntries(kinds.map(({ figure, hosts }) => [figure, hosts.length])),
  };
}

const NO_HOSTS: HostsByOutage = new Map();

/** Hosts of one kind that a message names. */
const MAX_NAMED_HOSTS = 3;

/** Conditions that pass by themselves come first. */
const HOST_CONDITIONS: readonly {
  readonly outage: Outage;
  readonly words: string;
  readonly figure: string;
  readonly remedy: string;
}[] = [
  {
    outage: "silent",
    words: "silent",
    figure: "silentHosts",
    remedy: "wait for the silent ones",
  },
  {
    outage: "fenced",
    words: "fenced",
    figure: "fencedHosts",
    remedy: "start the agents of the fenced ones",
  },
  { outage: "drained", words: "drained", figure: "drainedHosts", remedy: "undrain hosts" },
  {
    outage: "gpus-drained",
    words: "with drained GPUs",
    figure: "gpuDrainedHosts",
    remedy: "undrain GPUs",
  },
  {
    outage: "agentless",
    words: "without agent",
    figure: "agentlessHosts",
    remedy: "start agents",
  },
];
