/**
 * @file What would let a job start now that waits: changes that are tried on a copy of the ledger, the cheapest first.
 *
 * Each change is tried by the fleet's own cycle: a change is named only if the job is granted GPUs after it. Tried one by one are
 * words of the job (a time limit short enough to be let in before others, a higher priority, a smaller gang, one constraint less), the
 * fleet's limits (drains, quota, watts, maintenance, hosts that do not answer), and the release of leases: the one that loses
 * the least work, or the fewest of the cheapest ones together.
 * Price: the GPU-seconds of others' work that would be lost. Ties go in the order above: what the owner can do alone comes first.
 * Cost: one cycle a try, at most `MAX_TRIES`.
 */

import type { FleetShape } from "../domain/fleet.ts";
import type { HostId, JobId, LeaseId } from "../domain/ids.ts";
import { clusterOf } from "../domain/ids.ts";
import type { Constraints } from "../domain/job.ts";
import { gpuCountOf, type Lease } from "../domain/lease.ts";
import type { PendingRequest, PlanItem } from "../domain/plan.ts";
import { ms } from "../domain/units.ts";
import { runCycle, type DecidePorts, type Policies } from "./cycle.ts";
import { DECIDE_LIMITS, DECIDE_POLICIES } from "./decide.ts";
import { movesFor } from "./unblock-moves.ts";
import { hindranceOf, isSuitable, type Hindrance } from "./feasibility.ts";
import { indexFleet } from "./fleet-index.ts";
import type { HostStanding, Ledger } from "./ledger.ts";

export interface UnblockOptions {
  readonly nowMs: number;
  readonly ports?: DecidePorts;
  readonly policies?: Policies;
}

export type ChangeKind =
  "time-limit" | "priority" | "smaller-gang" | "constraint" | "fleet" | "move" | "release";

/** One change after which the job starts at once. */
export interface Change {
  readonly kind: ChangeKind;
  /** What to do, as an order without full stop. */
  readonly text: string;
  readonly lostGpuSeconds: number;
  /** GPUs that it would get. */
  readonly gpus: number;
  /** Clusters in which it would run. */
  readonly clusters: readonly string[];
  /** Leases that would have to end. */
  readonly leases?: readonly LeaseId[];
}

const MAX_TRIES = 60;
/** Leases that are tried one by one. */
const MAX_SINGLE_RELEASES = 12;
const TIME_LIMITS_MS: readonly (readonly [limitMs: number, text: string])[] = [
  [4 * 3_600_000, "4h"],
  [3_600_000, "1h"],
  [600_000, "10m"],
];

/** Cheapest first; empty when the job does not wait, or nothing that is tried helps. */
export function unblock(
  ledger: Ledger,
  job: JobId,
  { nowMs, ports = {}, policies = DECIDE_POLICIES }: UnblockOptions,
): readonly Change[] {
  const request = ledger.requests.get(job);
  if (request === undefined) return [];
  const changes: Change[] = [];
  let tries = 0;
  const grantIn = (changed: Ledger): PlanItem | undefined => {
    if (tries >= MAX_TRIES) return undefined;
    tries += 1;
    const limits = { ...DECIDE_LIMITS, maxReasons: 0, freshReasons: 0 };
    const options = { policies, ports, limits, method: "decide", onlyFor: job } as const;
    const { items } = runCycle(changed, nowMs, options).plan;
    return items.find((item) => item.request.jobId === job);
  };
  const note = (
    kind: ChangeKind,
    text: string,
    item: PlanItem,
    more: Partial<Pick<Change, "leases" | "lostGpuSeconds">> = {},
  ): void => {
    const clusters = [...new Set(item.gpus.map(({ host }) => clusterOf(host)))];
    changes.push({ kind, text, lostGpuSeconds: 0, gpus: gpuCountOf(item.gpus), clusters, ...more });
  };
  const asking = (change: Partial<PendingRequest>): Ledger => ({
    ...ledger,
    requests: new Map(
      [...ledger.requests].map(([id, each]) => [id, id === job ? { ...each, ...change } : each]),
    ),
  });

  if (grantIn(ledger) !== undefined) return [];
  tryWords();
  trySmaller();
  tryConstraints();
  tryFleet();
  tryMoves();
  tryReleases();
  return changes.sort(
    (a, b) => a.lostGpuSeconds - b.lostGpuSeconds || ORDER.indexOf(a.kind) - ORDER.indexOf(b.kind),
  );

  function tryWords(): void {
    for (const [limitMs, text] of TIME_LIMITS_MS) {
      if (limitMs >= (request?.timeLimitMs ?? Infinity)) continue;
      const item = grantIn(asking({ timeLimitMs: ms(limitMs) }));
      if (item === undefined) continue;
      note("time-limit", `set timeLimit to ${text}: so short a job delays nobody`, item);
      break;
    }
    const item = grantIn(asking({ priority: 1_000 }));
    if (item !== undefined)
      note("priority", "raise its priority above the tenant's other jobs", item);
  }

  /** Who can start with so many can start with fewer, as a rule; so the largest is found by halving. */
  function trySmaller(): void {
    if (request === undefined) return;
    let best: PlanItem | undefined;
    let [low, high] = [0, request.gang.gpus];
    while (high - low > 1) {
      const size = (low + high) >> 1;
      const gang = { gpus: size, min: size, timeoutMs: request.gang.timeoutMs };
      const item = grantIn(asking({ gang }));
      if (item === undefined) high = size;
      else [low, best] = [size, item];
    }
    if (best === undefined) return;
    note(
      "smaller-gang",
      `ask for ${low} of the ${request.gang.gpus} GPUs (gang.gpus or gang.min)`,
      best,
    );
  }

  function tryConstraints(): void {
    if (request === undefined) return;
    for (const { text, without } of relaxed(request.constraints)) {
      const item = grantIn(asking({ constraints: without }));
      if (item !== undefined) note("constraint", `${text}: ${placesOf(item)} has room`, item);
    }
  }

  function tryFleet(): void {
    if (request === undefined) return;
    for (const [hindrance, text] of HINDRANCES) {
      const { hosts, names } = ready(ledger, request, hindrance);
      if (names.length === 0) continue;
      const item = grantIn({ ...ledger, hosts });
      if (item === undefined) continue;
      const used = item.gpus.map(({ host }) => host).filter((host) => names.includes(host));
      note("fleet", `${text} ${used.slice(0, 4).join(", ")}`, item);
    }
    const { shape } = ledger;
    for (const [text, changed] of [
      [`raise the quota of tenant ${request.tenant}`, withoutQuota(shape, request)],
      ["raise the power or cooling budgets", withoutWatts(shape)],
      ["end the maintenance, or move it", withoutMaintenance(shape)],
    ] as const) {
      const item = changed && grantIn({ ...ledger, shape: changed });
      if (item !== undefined) note("fleet", text, item);
    }
  }

  /** Carried out elsewhere; as a change it is only looked for where enough is free. */
  function tryMoves(): void {
    const reason = request && ledger.reasons.get(request.jobId);
    if (request === undefined || reason?.code !== "TopologyPlacementFailed") return;
    const moves = movesFor(ledger, request, { nowMs, place: policies.place });
    if (moves === undefined) return;
    const { found, text } = moves;
    const clusters = [...new Set(found.gpus.map(({ host }) => clusterOf(host)))];
    const lostGpuSeconds = Math.round(found.priceGpuSeconds);
    changes.push({ kind: "move", text, lostGpuSeconds, gpus: gpuCountOf(found.gpus), clusters });
  }

  function tryReleases(): void {
    if (request === undefined) return;
    const costs = releasable(ledger, request, nowMs);
    const without = (released: readonly Cost[]): Ledger => ({
      ...ledger,
      leases: new Map(
        [...ledger.leases].filter(([id]) => released.every(({ lease }) => lease.id !== id)),
      ),
    });
    const noteRelease = (released: readonly Cost[], item: PlanItem): void => {
      const names = released.map(({ lease }) => `${lease.id} (${lease.jobId})`);
      const shown = [
        ...names.slice(0, 4),
        ...(names.length > 4 ? [`and ${names.length - 4} more`] : []),
      ];
      note("release", `end ${shown.join(", ")}`, item, {
        leases: released.map(({ lease }) => lease.id),
        lostGpuSeconds: released.reduce((sum, { lostGpuSeconds }) => sum + lostGpuSeconds, 0),
      });
    };
    for (const one of costs.slice(0, MAX_SINGLE_RELEASES)) {
      const item = grantIn(without([one]));
      if (item !== undefined) return noteRelease([one], item);
    }
    // The fewest of the cheapest: by doubling, then by halving what was too many.
    let enough = 2;
    while (enough < costs.length && grantIn(without(costs.slice(0, enough))) === undefined)
      enough *= 2;
    let [low, high] = [Math.max(1, enough >> 1), Math.min(enough, costs.length)];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (grantIn(without(costs.slice(0, middle))) === undefined) low = middle;
      else high = middle;
    }
    const released = costs.slice(0, high);
    const item = released.length > 1 ? grantIn(without(released)) : undefined;
    if (item !== undefined) noteRelease(released, item);
  }
}

const ORDER: readonly ChangeKind[] = [
  "time-limit",
  "priority",
  "smaller-gang",
  "constraint",
  "fleet",
  "move",
  "release",
];

const HINDRANCES: readonly (readonly [Hindrance, string])[] = [
  ["drained", "undrain"],
  ["agentless", "start agents on"],
  ["silent", "bring back the agents of"],
  ["fenced", "start the agents of"],
];

const placesOf = ({ gpus }: PlanItem): string =>
  [...new Set(gpus.map(({ host }) => clusterOf(host)))].join(", ");

function relaxed(
  constraints: Constraints,
): readonly { readonly text: string; readonly without: Constraints }[] {
  const { jurisdictions, clusters, hosts, gpuTypes, gpuMemoryGiB, antiAffinity, ...rest } =
    constraints;
  const lists = {
    ...(clusters !== undefined && { clusters }),
    ...(hosts !== undefined && { hosts }),
    ...(jurisdictions !== undefined && { jurisdictions }),
    ...(gpuTypes !== undefined && { gpuTypes }),
    ...(gpuMemoryGiB !== undefined && { gpuMemoryGiB }),
    ...(antiAffinity !== undefined && { antiAffinity }),
  };
  const without = (key: keyof typeof lists): Constraints => ({
    ...rest,
    ...Object.fromEntries(Object.entries(lists).filter(([name]) => name !== key)),
  });
  const all: Constraints = { ...rest, ...lists };
  return [
    ...(rest.isSameHost
      ? [{ text: "leave out sameHost", without: { ...all, isSameHost: false } }]
      : []),
    ...(rest.isSameFabric
      ? [{ text: "leave out sameFabric", without: { ...all, isSameFabric: false } }]
      : []),
    ...(!rest.isSameHost && !rest.isSameFabric
      ? [
          {
            text: `allow more clusters than ${rest.maxClusters ?? 1} (maxClusters)`,
            without: { ...all, maxClusters: 1_000 },
          },
        ]
      : []),
    ...(antiAffinity === undefined
      ? []
      : [{ text: "leave out antiAffinity", without: without("antiAffinity") }]),
    ...(clusters === undefined
      ? []
      : [
          {
            text: `allow other clusters than ${clusters.join(", ")}`,
            without: without("clusters"),
          },
        ]),
    ...(hosts === undefined
      ? []
      : [{ text: `allow other hosts than ${hosts.join(", ")}`, without: without("hosts") }]),
    ...(gpuTypes === undefined
      ? []
      : [{ text: `allow other GPUs than ${gpuTypes.join(", ")}`, without: without("gpuTypes") }]),
    ...(gpuMemoryGiB === undefined
      ? []
      : [{ text: `allow less memory than ${gpuMemoryGiB} GiB`, without: without("gpuMemoryGiB") }]),
    ...(jurisdictions === undefined
      ? []
      : [
          {
            text: `allow other jurisdictions than ${jurisdictions.join(", ")}`,
            without: without("jurisdictions"),
          },
        ]),
  ];
}

/** The standings if the hosts that suit the request and are hindered like this were not. */
function ready(
  { hosts, shape }: Ledger,
  request: PendingRequest,
  hindrance: Hindrance,
): { readonly hosts: Ledger["hosts"]; readonly names: readonly HostId[] } {
  const names = [...indexFleet(shape).places.values()]
    .filter((place) => isSuitable(request, place))
    .map(({ host }) => host.id)
    .filter((id) => hindranceOf(hosts.get(id)) === hindrance);
  const changed = new Map(hosts);
  for (const id of names) changed.set(id, { agent: SOME_AGENT, ...standingLess(hosts.get(id)) });
  return { hosts: changed, names };
}

function standingLess(standing: HostStanding | undefined): HostStanding {
  const { agent } = standing ?? {};
  return { ...(agent !== undefined && { agent }), isDrained: false };
}

/** Nobody is sent there: the plan is thrown away. */
const SOME_AGENT = { epoch: "", runQueue: "", orderQueue: "", address: "" };

function withoutQuota(shape: FleetShape, { tenant }: PendingRequest): FleetShape | undefined {
  if (shape.tenants.every(({ id }) => id !== tenant)) return undefined;
  const tenants = shape.tenants.map((rule) => (rule.id === tenant ? { ...rule, quota: {} } : rule));
  return { ...shape, tenants };
}

function withoutWatts(shape: FleetShape): FleetShape | undefined {
  const { sites, ...rest } = shape;
  const hasLimit = [...(sites ?? []), ...shape.clusters].some(
    (each) => each.powerBudgetWatts !== undefined || each.coolingBudgetWatts !== undefined,
  );
  if (!hasLimit && shape.clusters.every(({ racks }) => racks === undefined)) return undefined;
  const clusters = rest.clusters.map((cluster) => {
    const {
      powerBudgetWatts: _power,
      coolingBudgetWatts: _cooling,
      racks: _racks,
      ...free
    } = cluster;
    return free;
  });
  return { ...rest, clusters };
}

function withoutMaintenance(shape: FleetShape): FleetShape | undefined {
  if (shape.clusters.every(({ maintenance }) => maintenance === undefined)) return undefined;
  const clusters = shape.clusters.map(({ maintenance: _over, ...cluster }) => cluster);
  return { ...shape, clusters };
}

interface Cost {
  readonly lease: Lease;
  readonly lostGpuSeconds: number;
}

/** Leases on hosts that suit the request, the cheapest first. */
function releasable(ledger: Ledger, request: PendingRequest, nowMs: number): readonly Cost[] {
  const { places } = indexFleet(ledger.shape);
  return [...ledger.leases.values()]
    .filter(
      ({ jobId, gpus, eviction }) =>
        jobId !== request.jobId &&
        eviction === undefined &&
        gpus.some(({ host }) => {
          const place = places.get(host);
          return place !== undefined && isSuitable(request, place);
        }),
    )
    .map((lease) => ({ lease, lostGpuSeconds: lostBy(lease, nowMs) }))
    .sort((a, b) => a.lostGpuSeconds - b.lostGpuSeconds || a.lease.token - b.lease.token);
}

/** Work since its last checkpoint; of one whose job is gone already, none. */
function lostBy({ gpus, grantedAtMs, checkpointedAtMs, state }: Lease, nowMs: number): number {
  if (state === "vacating") return 0;
  const sinceMs = Math.max(grantedAtMs, checkpointedAtMs ?? 0);
  return (gpuCountOf(gpus) * Math.max(0, nowMs - sinceMs)) / 1_000;
}
