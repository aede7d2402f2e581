/**
 * @file Checks whether GPUs may be granted to a request. `decide` and `apply` both use these functions, so they cannot disagree.
 *
 * A gang has one GPU type. It lies in one cluster unless `maxClusters` allows more; `isSameFabric` means one cluster that has a fabric,
 * `isSameHost` one host. A smaller size is acceptable only after the gang timeout, or when the job has stopped to continue on exactly these
 * GPUs. GPUs that are reserved for another job are not granted (reservation-index.ts).
 * On each host, the processors and memory that are stated cover what its leases take (host-resources.ts); from `RESOURCE_RULES` on requests
 * may say how much.
 * Jobs of one tenant with the same anti-affinity label never share a host. limits.ts has the rules of maintenance.
 * GPUs of one host may hold several gangs of a job array at once; the gangs of an array never shrink.
 * Cost of a check: O(hosts of the grant). Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import type { RefusalCode } from "../../../domain/values/codes.ts";
import type { HostId } from "../../../domain/values/ids.ts";
import type { Constraints, Gang } from "../../../domain/job/job.ts";
import { resourceText } from "../../../domain/job/job-resources.ts";
import {
  gpuCountOf,
  popCount,
  type GangRequest,
  type HostGpus,
} from "../../../domain/lease/lease.ts";
import type { PlanItem } from "../../../domain/lease/plan.ts";
import { fullMask } from "../../../lib/bits.ts";
import type { FleetIndex, HostPlace } from "./fleet-index.ts";
import { drainedMask } from "./gpu-drains.ts";
import { hasEnough, shortage } from "./host-resources.ts";
import type { HostStatus } from "../ledger.ts";
import { forbiddingWindow, quotaLimit, wattsLimit, WATTS_EPSILON } from "./limits.ts";
import { mayBackfillOn } from "./opportunistic-terms.ts";
import { forbiddenTo, isKept, usableBy, type Reserved } from "./reservation-index.ts";
import { heldUnder, rivalOn, type Usage } from "./usage.ts";

/** What a grant is judged against. */
export interface GrantTerms {
  readonly index: FleetIndex;
  readonly usage: Usage;
  readonly hostStatuses: ReadonlyMap<HostId, HostStatus>;
  /** Absent: there are no reservations. */
  readonly reserved?: Reserved;
  readonly nowMs: number;
}

export interface GrantProblem {
  readonly code: RefusalCode;
  readonly message: string;
}

type Part = HostPlace & { readonly mask: number };

/** The first thing that forbids the grant; absent when it is allowed. */
export function checkGrant(
  request: GangRequest,
  { gpus, slots, isOpportunistic }: Pick<PlanItem, "gpus" | "slots" | "isOpportunistic">,
  terms: GrantTerms,
): GrantProblem | undefined {
  if (isOpportunistic === true && !mayBackfillOn(request))
    return problem("GpuReserved", `${request.jobId} may not use GPUs that are reserved for others`);
  const parts = new Map<HostId, Part>();
  const asked = { ...terms, isOpportunistic: isOpportunistic === true };
  for (const { host, mask } of gpus) {
    const place = terms.index.places.get(host);
    if (place === undefined) return problem("HostUnknown", `the fleet has no host ${host}`);
    if (parts.has(host)) return problem("GpuTaken", `the grant names ${host} twice`);
    const part = { ...place, mask };
    const found = hostProblem(request, part, asked);
    if (found !== undefined) return found;
    parts.set(host, part);
  }
  const all = [...parts.values()];
  return (
    (request.slots === undefined && slots === undefined
      ? sizeProblem(request, gpus, terms)
      : slotsProblem(request, gpus, slots)) ??
    shapeProblem(request.constraints, all) ??
    quotaProblem(request, all, terms) ??
    powerProblem(all, terms)
  );
}

/** What keeps new work from a host whose agent does not answer, or that is drained; the one that has to be dealt with first. */
export type HostCondition = "agentless" | "fenced" | "silent" | "drained";

/** Undefined where new work may start. */
export function hostConditionOf(status: HostStatus | undefined): HostCondition | undefined {
  if (status?.agent === undefined) return status?.isFenced === true ? "fenced" : "agentless";
  if (status.silentSinceMs !== undefined) return "silent";
  return status.isDrained ? "drained" : undefined;
}

/** The same, and of a host that takes new work on other GPUs of it. */
export type Outage = HostCondition | "gpus-drained";

export const outageOf = (status: HostStatus | undefined): Outage | undefined =>
  hostConditionOf(status) ?? (status?.gpuDrains === undefined ? undefined : "gpus-drained");

/** Whether a host suits the request, whatever happens there now. */
export function isSuitable(
  { constraints, avoidHosts }: Pick<GangRequest, "constraints" | "avoidHosts">,
  { host, cluster }: HostPlace,
): boolean {
  const { jurisdictions, clusters, hosts, gpuTypes, gpuMemoryGiB, resources } = constraints;
  return (
    (jurisdictions?.includes(cluster.jurisdiction) ?? true) &&
    (clusters?.includes(cluster.id) ?? true) &&
    (hosts?.includes(host.id) ?? true) &&
    (gpuTypes?.includes(host.gpuType) ?? true) &&
    host.gpuMemoryGiB >= (gpuMemoryGiB ?? 0) &&
    (resources === undefined || hasEnough(host, resources)) &&
    !(avoidHosts?.includes(host.id) ?? false)
  );
}

/** The shape that a gang must have: one cluster unless the job says more. */
export function shapeOf({ maxClusters = 1, isSameHost, isSameFabric }: Constraints): GangShape {
  return { maxClusters: isSameHost || isSameFabric ? 1 : maxClusters, isSameHost, isSameFabric };
}

export interface GangShape {
  readonly maxClusters: number;
  readonly isSameHost: boolean;
  readonly isSameFabric: boolean;
}

export const canShrink = (gang: Gang): boolean => smallestSize(gang) < gang.gpus;

/** The smallest size that will ever be acceptable. */
export const smallestSize = (gang: Gang): number =>
  gang.shapes === undefined ? gang.min : Math.min(gang.gpus, ...smallerShapes(gang));

/** When sizes below `gang.gpus` become acceptable. */
export const shrinkAtMs = ({ gang, requestedAtMs }: GangRequest): number =>
  requestedAtMs + gang.timeoutMs;

/** The largest size up to `atMost` that is acceptable at this time; at the end of all time when none is given. */
export function largestAcceptable(
  request: GangRequest,
  atMost: number,
  nowMs: number = Infinity,
): number | undefined {
  const { gang } = request;
  if (gang.gpus <= atMost) return gang.gpus;
  if (nowMs < shrinkAtMs(request)) return undefined;
  if (gang.shapes === undefined) return gang.min <= atMost ? Math.floor(atMost) : undefined;
  const within = smallerShapes(gang).filter((size) => size <= atMost);
  return within.length === 0 ? undefined : Math.max(...within);
}

/** Whether the gang may ever be of this size. */
export const isAcceptableSize = (gang: Gang, size: number): boolean =>
  size === gang.gpus ||
  (gang.shapes === undefined
    ? Number.isInteger(size) && size >= gang.min && size < gang.gpus
    : smallerShapes(gang).includes(size));

const smallerShapes = ({ gpus, min, shapes = [] }: Gang): readonly number[] =>
  shapes.filter((size) => size >= min && size < gpus);

function hostProblem(
  request: GangRequest,
  part: Part,
  terms: GrantTerms & { readonly isOpportunistic: boolean },
): GrantProblem | undefined {
  const { host, mask } = part;
  const status = terms.hostStatuses.get(host.id);
  const hostCondition = hostConditionOf(status);
  if (!Number.isInteger(mask) || mask < 1 || mask > fullMask(host.gpuCount)) {
    return problem(
      "HostUnknown",
      `${host.id} has GPUs 0 to ${host.gpuCount - 1}; mask ${mask} is no set of them`,
    );
  }
  if (hostCondition !== undefined)
    return problem("HostUnavailable", `${host.id} ${HOST_CONDITIONS[hostCondition]}`);
  const window = part.windows && forbiddingWindow(request, part.windows, terms.nowMs);
  if (window !== undefined) {
    const when = `${new Date(window.fromMs).toISOString()} to ${new Date(window.toMs).toISOString()}`;
    return problem("HostUnavailable", `${host.id} is in maintenance from ${when}`);
  }
  const drained = drainedMask(status) & mask;
  if (drained !== 0) {
    return problem(
      "HostUnavailable",
      `${host.id}: ${popCount(drained)} of the GPUs (mask ${drained}) are drained`,
    );
  }
  const overlap = (terms.usage.taken.get(host.id) ?? 0) & mask;
  if (overlap !== 0) {
    return problem(
      "GpuTaken",
      `${host.id}: ${popCount(overlap)} of the GPUs (mask ${overlap}) are leased`,
    );
  }
  const reservedMask =
    terms.reserved === undefined
      ? 0
      : mask & forbiddenTo(terms.reserved, request, { host: host.id, nowMs: terms.nowMs });
  const isLent =
    terms.isOpportunistic &&
    terms.reserved !== undefined &&
    (reservedMask & ~usableBy(terms.reserved, request, host.id)) === 0;
  if (reservedMask !== 0 && !isLent) {
    return problem(
      "GpuReserved",
      `${host.id}: ${popCount(reservedMask)} of the GPUs (mask ${reservedMask}) are reserved for another job`,
    );
  }
  const rival = rivalOn(terms.usage, host.id, request);
  if (rival !== undefined) {
    const label = request.constraints.antiAffinity ?? "";
    return problem(
      "ConstraintBroken",
      `${host.id} has ${rival} of the same tenant and label ${label}`,
    );
  }
  if (!isSuitable(request, part)) {
    const { gpuType, gpuMemoryGiB } = host;
    return problem(
      "ConstraintBroken",
      `${host.id} (${gpuType}, ${gpuMemoryGiB} GiB, ${part.cluster.jurisdiction}) is not what the job asks for`,
    );
  }
  return resourceProblem(request, part, terms);
}

function resourceProblem(
  { constraints: { resources: need } }: GangRequest,
  { host, mask }: Part,
  { usage: { taken, uneven } }: GrantTerms,
): GrantProblem | undefined {
  if (need === undefined && !uneven.has(host.id)) return undefined;
  const gpus = popCount(mask);
  const otherGpus = popCount(taken.get(host.id) ?? 0);
  const short = shortage(host, gpus, { need, uneven, otherGpus });
  if (short === undefined) return undefined;
  const amount = (value: number): string => resourceText(short.of, value);
  return problem(
    "ResourcesTaken",
    `${host.id} has ${amount(Math.max(0, short.left))} of its ${amount(short.total)} left; ${gpus} GPUs of the job take ${amount(gpus * short.need)}`,
  );
}

const HOST_CONDITIONS: Readonly<Record<HostCondition, string>> = {
  agentless: "has no agent",
  fenced: "is fenced until its agent reports",
  silent: "does not answer",
  drained: "is being drained",
};

function sizeProblem(
  request: GangRequest,
  granted: readonly HostGpus[],
  { reserved, nowMs }: GrantTerms,
): GrantProblem | undefined {
  const size = gpuCountOf(granted);
  if (isAcceptableSize(request.gang, size) && isKept(reserved?.byJob.get(request.jobId), granted))
    return undefined;
  if (size > 0 && largestAcceptable(request, size, nowMs) === size) return undefined;
  const { gpus, min, timeoutMs } = request.gang;
  return problem(
    "GangSizeWrong",
    `${size} GPUs are no acceptable size now: ${gpus}, or from ${min} up after ${timeoutMs} ms of waiting`,
  );
}

/** Each gang of an array is whole, and on one host where the grant holds several. */
function slotsProblem(
  { gang, slots: wanted }: GangRequest,
  gpus: readonly HostGpus[],
  slots: number | undefined,
): GrantProblem | undefined {
  const size = gpuCountOf(gpus);
  if (wanted === undefined || slots === undefined) {
    const kind = wanted === undefined ? "no job array" : "a job array";
    return problem(
      "GangSizeWrong",
      `the request is of ${kind}, the grant of ${slots ?? "no"} slots`,
    );
  }
  const isWhole = Number.isInteger(slots) && slots >= 1 && size === slots * gang.gpus;
  if (isWhole && slots <= wanted && (slots === 1 || gpus.length === 1)) return undefined;
  return problem(
    "GangSizeWrong",
    `${size} GPUs on ${gpus.length} hosts are not ${slots} gangs of ${gang.gpus}; ${wanted} are asked for`,
  );
}

function shapeProblem(constraints: Constraints, parts: readonly Part[]): GrantProblem | undefined {
  const types = new Set(parts.map(({ host }) => host.gpuType));
  const clusters = new Set(parts.map(({ cluster }) => cluster.id));
  if (types.size > 1) {
    return problem("ConstraintBroken", `a gang is of one GPU type; found ${[...types].join(", ")}`);
  }
  if (constraints.isSameHost && parts.length > 1) {
    return problem("ConstraintBroken", `the job asks for one host; found ${parts.length}`);
  }
  if (constraints.isSameFabric && parts.some(({ cluster }) => cluster.fabricGbps === undefined)) {
    return problem(
      "ConstraintBroken",
      `the job asks for one fabric; ${[...clusters].join(", ")} has none`,
    );
  }
  const most = shapeOf(constraints).maxClusters;
  return clusters.size > most
    ? problem("ConstraintBroken", `the gang may span ${most} clusters; found ${clusters.size}`)
    : undefined;
}

function quotaProblem(
  { tenant }: GangRequest,
  parts: readonly Part[],
  { index, usage }: GrantTerms,
): GrantProblem | undefined {
  const gpuType = parts[0]?.host.gpuType;
  if (gpuType === undefined) return undefined;
  const limit = quotaLimit(index.tenants.get(tenant), gpuType);
  if (limit === undefined) return undefined;
  const held = heldUnder(usage, tenant, limit.key);
  const size = gpuCountOf(parts.map(({ host, mask }) => ({ host: host.id, mask })));
  return held + size > limit.gpus
    ? problem(
        "QuotaExceeded",
        `tenant ${tenant} holds ${held} of ${limit.gpus} GPUs (${limit.key}); ${size} more are too many`,
      )
    : undefined;
}

interface PowerLimit {
  readonly limitWatts: number;
  /** Watts in use before the grant. */
  readonly before: number;
}

function powerProblem(parts: readonly Part[], { usage }: GrantTerms): GrantProblem | undefined {
  const drawn = new Map<string, { readonly limitWatts: number; watts: number }>();
  const add = (name: string, more: number, { limitWatts, before }: PowerLimit): void => {
    const known = drawn.get(name);
    if (known === undefined) drawn.set(name, { limitWatts, watts: before + more });
    else known.watts += more;
  };
  for (const { host, cluster, mask, budgets = [] } of parts) {
    const more = popCount(mask) * host.gpuWatts;
    const before = usage.watts.get(cluster.id) ?? 0;
    add(cluster.id, more, { limitWatts: wattsLimit(cluster), before });
    for (const { name, limitWatts } of budgets)
      add(name, more, { limitWatts, before: usage.budgets.get(name) ?? 0 });
  }
  for (const [name, { limitWatts, watts }] of drawn) {
    if (watts > limitWatts + WATTS_EPSILON)
      return problem("PowerExceeded", `${name} would draw ${watts} W of ${limitWatts} W`);
  }
  return undefined;
}

const problem = (code: RefusalCode, message: string): GrantProblem => ({ code, message });
