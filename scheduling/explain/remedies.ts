/**
 * @file Finds the changes that would let a waiting job start now, the cheapest first, by trying each on a copy of the ledger.
 *
 * The fleet's own cycle judges every change: a change is named only if the cycle grants the job GPUs after it. Tried one by one are
 * the job's own terms (a time limit short enough for backfill, a higher priority, a smaller gang, one constraint less), the fleet's limits
 * (drains, quota, watts, maintenance, hosts that do not answer), moves, and the release of leases: the one lease that loses the least
 * work, or the fewest of the cheapest ones together.
 * Price: the GPU-seconds of other jobs' work that would be lost. Ties go in the order above: first what the owner can do alone.
 * Cost: one cycle a try, at most `MAX_ATTEMPTS`.
 */

import type { JobId, LeaseId } from "../../domain/values/ids.ts";
import { clusterOf } from "../../domain/values/ids.ts";
import { gpuCountOf } from "../../domain/lease/lease.ts";
import type { PendingRequest, PlanItem } from "../../domain/lease/plan.ts";
import { ms } from "../../domain/values/units.ts";
import { runCycle, type DecidePorts, type Policies } from "../cycle/cycle.ts";
import { DECIDE_POLICIES, SILENT_LIMITS } from "../cycle/decide.ts";
import { placeFor } from "../cycle/policies.ts";
import type { Outage } from "../ledger/rules/grant-check.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { relaxed } from "./relaxed-constraints.ts";
import { withoutMaintenance, withoutQuota, withoutWatts, withReadyHosts } from "./relaxed-fleet.ts";
import { releasable, type ReleaseCost } from "./release-costs.ts";
import { movesFor } from "./remedy-moves.ts";

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
  /** The action, as an order without full stop. */
  readonly text: string;
  readonly lostGpuSeconds: number;
  /** GPUs that the job would get. */
  readonly gpus: number;
  /** Clusters in which it would run. */
  readonly clusters: readonly string[];
  /** Leases that would have to end. */
  readonly leases?: readonly LeaseId[];
}

const MAX_ATTEMPTS = 60;
/** Leases that are tried one by one. */
const MAX_SINGLE_RELEASES = 12;
const TIME_LIMITS_MS: readonly (readonly [limitMs: number, text: string])[] = [
  [4 * 3_600_000, "4h"],
  [3_600_000, "1h"],
  [600_000, "10m"],
];

/** The cheapest change of each kind, at most so many. */
export function firstOfEachKind(changes: readonly Change[], most: number): readonly Change[] {
  const kinds = new Set<ChangeKind>();
  return changes.filter(({ kind }) => {
    if (kinds.has(kind) || kinds.size >= most) return false;
    kinds.add(kind);
    return true;
  });
}

/** Cheapest first; empty when the job does not wait, would start anyway, or nothing that is tried helps. */
export function unblock(
  ledger: Ledger,
  job: JobId,
  { nowMs, ports = {}, policies = DECIDE_POLICIES }: UnblockOptions,
): readonly Change[] {
  const request = ledger.requests.get(job);
  if (request === undefined) return [];
  let attempts = 0;
  const grantIn = (changed: Ledger): PlanItem | undefined => {
    if (attempts >= MAX_ATTEMPTS) return undefined;
    attempts += 1;
    const { items } = runCycle(changed, nowMs, {
      policies,
      ports,
      limits: SILENT_LIMITS,
      method: "decide",
      onlyFor: job,
    }).plan;
    return items.find((item) => item.request.jobId === job);
  };
  if (grantIn(ledger) !== undefined) return [];
  const trial: Trial = { ledger, request, nowMs, policies, grantIn };
  const changes = [
    ...changedTerms(trial),
    ...smallerGang(trial),
    ...fewerConstraints(trial),
    ...liftedLimits(trial),
    ...moves(trial),
    ...releases(trial),
  ];
  return changes.sort(
    (a, b) => a.lostGpuSeconds - b.lostGpuSeconds || ORDER.indexOf(a.kind) - ORDER.indexOf(b.kind),
  );
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

interface Trial {
  readonly ledger: Ledger;
  readonly request: PendingRequest;
  readonly nowMs: number;
  readonly policies: Policies;
  /** The grant of the job in a cycle on this ledger; undefined as well when no attempt is left. */
  readonly grantIn: (changed: Ledger) => PlanItem | undefined;
}

/** The grant if the job asked like this. */
function grantIfAsked(
  { ledger, request, grantIn }: Trial,
  change: Partial<PendingRequest>,
): PlanItem | undefined {
  const requests = new Map(
    [...ledger.requests].map(([id, each]) => [
      id,
      id === request.jobId ? { ...each, ...change } : each,
    ]),
  );
  return grantIn({ ...ledger, requests });
}

const changeTo = (kind: ChangeKind, text: string, { gpus }: PlanItem): Change => ({
  kind,
  text,
  lostGpuSeconds: 0,
  gpus: gpuCountOf(gpus),
  clusters: [...new Set(gpus.map(({ host }) => clusterOf(host)))],
});

/** The longest shorter time limit, and a priority above all others. */
function changedTerms(trial: Trial): Change[] {
  const changes: Change[] = [];
  for (const [limitMs, text] of TIME_LIMITS_MS) {
    if (limitMs >= (trial.request.timeLimitMs ?? Infinity)) continue;
    const item = grantIfAsked(trial, { timeLimitMs: ms(limitMs) });
    if (item === undefined) continue;
    const order = `set timeLimit to ${text}: so short a job delays nobody`;
    changes.push(changeTo("time-limit", order, item));
    break;
  }
  const item = grantIfAsked(trial, { priority: 1_000 });
  if (item !== undefined)
    changes.push(changeTo("priority", "raise its priority above the tenant's other jobs", item));
  return changes;
}

/** The largest gang that starts, by halving: a job that can start with n GPUs can start with fewer, as a rule. */
function smallerGang(trial: Trial): Change[] {
  const { gang } = trial.request;
  let best: PlanItem | undefined;
  let [low, high] = [0, gang.gpus];
  while (high - low > 1) {
    const size = (low + high) >> 1;
    const item = grantIfAsked(trial, {
      gang: { gpus: size, min: size, timeoutMs: gang.timeoutMs },
    });
    if (item === undefined) high = size;
    else [low, best] = [size, item];
  }
  if (best === undefined) return [];
  const text = `ask for ${low} of the ${gang.gpus} GPUs (gang.gpus or gang.min)`;
  return [changeTo("smaller-gang", text, best)];
}

const fewerConstraints = (trial: Trial): Change[] =>
  relaxed(trial.request.constraints).flatMap(({ text, without }) => {
    const item = grantIfAsked(trial, { constraints: without });
    return item === undefined
      ? []
      : [changeTo("constraint", `${text}: ${clustersOf(item)} has room`, item)];
  });

const clustersOf = ({ gpus }: PlanItem): string =>
  [...new Set(gpus.map(({ host }) => clusterOf(host)))].join(", ");

const HOST_REMEDIES: readonly (readonly [Outage, string])[] = [
  ["drained", "undrain"],
  ["gpus-drained", "undrain the GPUs of"],
  ["agentless", "start agents on"],
  ["silent", "bring back the agents of"],
  ["fenced", "start the agents of"],
];

function liftedLimits({ ledger, request, grantIn }: Trial): Change[] {
  const changes: Change[] = [];
  for (const [condition, text] of HOST_REMEDIES) {
    const { hosts, names } = withReadyHosts(ledger, request, condition);
    if (names.length === 0) continue;
    const item = grantIn({ ...ledger, hosts });
    if (item === undefined) continue;
    const used = item.gpus.map(({ host }) => host).filter((host) => names.includes(host));
    changes.push(changeTo("fleet", `${text} ${used.slice(0, 4).join(", ")}`, item));
  }
  const { shape } = ledger;
  for (const [text, changed] of [
    [`raise the quota of tenant ${request.tenant}`, withoutQuota(shape, request)],
    ["raise the power or cooling budgets", withoutWatts(shape)],
    ["end the maintenance, or move it", withoutMaintenance(shape)],
  ] as const) {
    const item = changed && grantIn({ ...ledger, shape: changed });
    if (item !== undefined) changes.push(changeTo("fleet", text, item));
  }
  return changes;
}

/** Moves of running gangs, where enough GPUs are free but lie apart. The cycle of the fleet carries them out elsewhere. */
function moves({ ledger, request, nowMs, policies }: Trial): Change[] {
  if (ledger.reasons.get(request.jobId)?.code !== "TopologyPlacementFailed") return [];
  const offered = movesFor(ledger, request, { nowMs, place: placeFor(policies, ledger.shape) });
  if (offered === undefined) return [];
  const { found, text } = offered;
  const clusters = [...new Set(found.gpus.map(({ host }) => clusterOf(host)))];
  const lostGpuSeconds = Math.round(found.priceGpuSeconds);
  return [{ kind: "move", text, lostGpuSeconds, gpus: gpuCountOf(found.gpus), clusters }];
}

/** The cheapest lease alone; else the fewest of the cheapest together, found by doubling and then halving. */
function releases({ ledger, request, nowMs, grantIn }: Trial): Change[] {
  const costs = releasable(ledger, request, nowMs);
  const without = (released: readonly ReleaseCost[]): Ledger => ({
    ...ledger,
    leases: new Map(
      [...ledger.leases].filter(([id]) => released.every(({ lease }) => lease.id !== id)),
    ),
  });
  for (const one of costs.slice(0, MAX_SINGLE_RELEASES)) {
    const item = grantIn(without([one]));
    if (item !== undefined) return [releaseOf([one], item)];
  }
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
  return item === undefined ? [] : [releaseOf(released, item)];
}

function releaseOf(released: readonly ReleaseCost[], item: PlanItem): Change {
  const names = released.map(({ lease }) => `${lease.id} (${lease.jobId})`);
  const shown = [
    ...names.slice(0, 4),
    ...(names.length > 4 ? [`and ${names.length - 4} more`] : []),
  ];
  return {
    ...changeTo("release", `end ${shown.join(", ")}`, item),
    leases: released.map(({ lease }) => lease.id),
    lostGpuSeconds: released.reduce((sum, { lostGpuSeconds }) => sum + lostGpuSeconds, 0),
  };
}
