/** @file Fleets, requests and ledgers for tests, with truthful defaults. */

import type { ClusterShape, FleetShape, HostShape, TenantRule } from "../../domain/fleet/fleet.ts";
import {
  clusterId,
  hostId,
  jobId,
  leaseId,
  runId,
  tenantId,
  token,
  type HostId,
} from "../../domain/values/ids.ts";
import type { Constraints, Gang } from "../../domain/job/job.ts";
import type { GangRequest, HostGpus } from "../../domain/lease/lease.ts";
import type { Plan } from "../../domain/lease/plan.ts";
import { gbps, gib, ms, watts } from "../../domain/values/units.ts";
import { apply, emptyLedger } from "../../scheduling/ledger/apply/apply.ts";
import type { InboxEntry } from "../../domain/lease/inbox-entry.ts";
import type { Applied, Ledger } from "../../scheduling/ledger/ledger.ts";

export interface ClusterSpec {
  readonly name?: string;
  /** One entry a host. */
  readonly hosts?: readonly HostSpec[];
  readonly jurisdiction?: string;
  readonly hasFabric?: boolean;
  readonly powerWatts?: number;
  readonly coolingWatts?: number;
}

export interface HostSpec {
  readonly gpus?: number;
  readonly type?: string;
  readonly memoryGiB?: number;
  readonly watts?: number;
  readonly cpus?: number;
  readonly hostMemoryGiB?: number;
}

export interface TenantSpec {
  readonly id: string;
  readonly quota: Readonly<Record<string, number>>;
  readonly borrowing?: number;
}

/** Clusters are called c0, c1, …; their hosts h0, h1, …; a host has 8 H100 with 80 GiB that draw 700 W each. */
export function fleetShape(
  clusters: readonly ClusterSpec[],
  tenants: readonly TenantSpec[] = [],
): FleetShape {
  return { clusters: clusters.map(clusterShape), links: [], tenants: tenants.map(tenantRule) };
}

function clusterShape(spec: ClusterSpec, at: number): ClusterShape {
  const id = clusterId(spec.name ?? `c${at}`);
  return {
    id,
    site: `site-${id}`,
    jurisdiction: spec.jurisdiction ?? "EU",
    ...(spec.hasFabric !== false && { fabricGbps: gbps(400) }),
    ...(spec.powerWatts !== undefined && { powerBudgetWatts: watts(spec.powerWatts) }),
    ...(spec.coolingWatts !== undefined && { coolingBudgetWatts: watts(spec.coolingWatts) }),
    hosts: (spec.hosts ?? [{}]).map((host, index) => hostShape(hostId(id, `h${index}`), host)),
    isSimulated: false,
  };
}

const hostShape = (id: HostId, spec: HostSpec): HostShape => ({
  id,
  gpuType: spec.type ?? "H100",
  gpuCount: spec.gpus ?? 8,
  gpuMemoryGiB: gib(spec.memoryGiB ?? 80),
  gpuWatts: watts(spec.watts ?? 700),
  ...(spec.cpus !== undefined && { cpus: spec.cpus }),
  ...(spec.hostMemoryGiB !== undefined && { hostMemoryGiB: gib(spec.hostMemoryGiB) }),
});

const tenantRule = ({ id, quota, borrowing = 0 }: TenantSpec): TenantRule => ({
  id: tenantId(id),
  weight: 1,
  quota,
  borrowingLimit: borrowing,
});

export type RequestSpec = Partial<
  Omit<GangRequest, "jobId" | "runId" | "gang" | "constraints" | "tenant">
> & {
  readonly job?: string;
  readonly run?: string;
  readonly tenant?: string;
  readonly gpus?: number;
  readonly gang?: Partial<Gang>;
  readonly constraints?: Partial<Constraints>;
};

/** Job `a`, first run, one GPU of whatever kind, all of it or nothing. */
export function gangRequest(spec: RequestSpec = {}): GangRequest {
  const {
    job = "a",
    run = `${job}-run1`,
    tenant = "t",
    gpus = 1,
    gang,
    constraints,
    ...rest
  } = spec;
  return {
    jobId: jobId(job),
    runId: runId(run),
    seq: 1,
    name: job,
    tenant: tenantId(tenant),
    class: "training",
    priority: 0,
    submittedAtMs: 0,
    requestedAtMs: 0,
    ...rest,
    gang: { gpus, min: gpus, timeoutMs: ms(30_000), ...gang },
    constraints: { isSameHost: false, isSameFabric: false, ...constraints },
  };
}

export const ask = (spec: RequestSpec = {}): InboxEntry => ({
  kind: "request",
  request: gangRequest(spec),
});

export const end = (
  job: string,
  spec: { run?: string; seq?: number; unconfirmed?: readonly string[] } = {},
): InboxEntry => ({
  kind: "end",
  jobId: jobId(job),
  runId: runId(spec.run ?? `${job}-run1`),
  seq: spec.seq ?? 1,
  unconfirmedHosts: (spec.unconfirmed ?? []).map(host),
});

/** `c0/h1` */
export function host(text: string): HostId {
  const [cluster = "", name = ""] = text.split("/");
  return hostId(cluster, name);
}

export const gpus = (
  ...parts: readonly (readonly [host: string, mask: number])[]
): readonly HostGpus[] => parts.map(([name, mask]) => ({ host: host(name), mask }));

export function hello(
  hosts: readonly string[],
  spec: {
    epoch?: string;
    running?: readonly (readonly [host: string, token: number])[];
    highestToken?: number;
  } = {},
): InboxEntry {
  const { epoch = "e1", running = [], highestToken = 0 } = spec;
  return {
    kind: "agent-registered",
    hosts: hosts.map(host),
    agent: { epoch, runQueue: `run.${epoch}`, orderQueue: `order.${epoch}`, address: "10.0.0.1" },
    running: running.map(([name, number]) => ({
      host: host(name),
      lease: leaseId(token(number)),
      token: token(number),
    })),
    highestToken,
  };
}

export const hostNames = (shape: FleetShape): readonly string[] =>
  shape.clusters.flatMap((cluster) => cluster.hosts.map(({ id }) => id));

/** A ledger of this fleet in which every host's agent has said hello. */
export function readyLedger(shape: FleetShape): Ledger {
  return inbox(emptyLedger(shape), [hello(hostNames(shape))]).ledger;
}

export const inbox = (ledger: Ledger, entries: readonly unknown[], nowMs = 0): Applied =>
  apply(ledger, { kind: "inbox", entries, nowMs });

export const grantItem = (
  job: string,
  parts: readonly HostGpus[],
  spec: { run?: string; seq?: number } = {},
): Plan["items"][number] => ({
  kind: "grant",
  request: { jobId: jobId(job), runId: runId(spec.run ?? `${job}-run1`), seq: spec.seq ?? 1 },
  gpus: parts,
  reason: "test",
});

export const planOf = (items: Plan["items"], pending: Plan["pending"] = []): Plan => ({
  items,
  pending,
  stats: { method: "decide", candidates: 0 },
});

export const applyPlan = (ledger: Ledger, plan: Plan, nowMs = 0): Applied =>
  apply(ledger, { kind: "plan", plan, nowMs });

/** Asks and grants in one go. */
export function leased(ledger: Ledger, spec: RequestSpec, parts: readonly HostGpus[]): Ledger {
  const request = gangRequest(spec);
  const asked = inbox(ledger, [{ kind: "request", request }]).ledger;
  const { jobId: job, runId: run, seq } = request;
  const item = {
    kind: "grant",
    request: { jobId: job, runId: run, seq },
    gpus: parts,
    reason: "test",
  } as const;
  const { ledger: after, refusals } = applyPlan(asked, planOf([item]));
  if (refusals.length > 0) throw new Error(refusals.map(({ message }) => message).join());
  return after;
}
