/**
 * @file What a new description would change of a fleet, and whom it touches: jobs on hosts that go or change, and what tenants hold of a quota.
 *
 * By id, and inside an entry by path, both in code-unit order. Measured tables are not compared.
 */

import type { Ledger } from "../../client/index.ts";
import { DEFAULT_POLICY, type FleetShape } from "../../domain/fleet/fleet.ts";
import { diffValues } from "../../domain/job/job-difference.ts";
import { popCount } from "../../domain/lease/lease.ts";
import { byCodeUnit, type JobId } from "../../domain/values/ids.ts";

export interface FleetChange {
  readonly change: "added" | "removed" | "changed";
  readonly what: "cluster" | "host" | "link" | "site" | "tenant" | "policy";
  readonly id: string;
  /** Of a change: where in the entry, and both values as text. */
  readonly path?: string;
  readonly was?: string;
  readonly is?: string;
  /** Of a host: jobs that hold GPUs of it now. They keep them. */
  readonly jobs?: readonly JobId[];
  /** Of a tenant: GPUs by type that it holds now. */
  readonly holds?: Readonly<Record<string, number>>;
}

type Entries = ReadonlyMap<string, object>;

export function fleetChanges(ledger: Ledger, next: FleetShape): readonly FleetChange[] {
  const { shape } = ledger;
  const hosts = (of: FleetShape): Entries => byId(of.clusters.flatMap((cluster) => cluster.hosts));
  const clusters = (of: FleetShape): Entries =>
    byId(of.clusters.map(({ hosts: _own, ...rest }) => rest));
  const links = (of: FleetShape): Entries =>
    new Map(of.links.map((link) => [`${link.from} to ${link.to}`, link]));
  const policy = ({ policy: own = DEFAULT_POLICY, noticeAddresses }: FleetShape): Entries =>
    new Map([["fleet", { ...own, ...(noticeAddresses && { noticeAddresses }) }]]);
  const jobsOn = jobsByHost(ledger);
  const held = heldByTenant(ledger);
  return [
    ...compared("cluster", clusters(shape), clusters(next)),
    ...compared("host", hosts(shape), hosts(next)).map((change) => {
      const jobs = jobsOn.get(change.id);
      return jobs === undefined ? change : { ...change, jobs };
    }),
    ...compared("link", links(shape), links(next)),
    ...compared("site", byId(shape.sites ?? []), byId(next.sites ?? [])),
    ...compared("tenant", byId(shape.tenants), byId(next.tenants)).map((change) => {
      const holds = held.get(change.id);
      return holds === undefined ? change : { ...change, holds };
    }),
    ...compared("policy", policy(shape), policy(next)),
  ];
}

const byId = (entries: readonly { readonly id: string }[]): Entries =>
  new Map(entries.map((entry) => [entry.id, entry]));

function compared(what: FleetChange["what"], was: Entries, is: Entries): readonly FleetChange[] {
  const ids = [...new Set([...was.keys(), ...is.keys()])].sort(byCodeUnit);
  return ids.flatMap((id): readonly FleetChange[] => {
    const [former, next] = [was.get(id), is.get(id)];
    if (former === undefined) return [{ change: "added", what, id }];
    if (next === undefined) return [{ change: "removed", what, id }];
    return diffValues(former, next).map((each) => ({ change: "changed", what, id, ...each }));
  });
}

function jobsByHost({ leases }: Ledger): ReadonlyMap<string, readonly JobId[]> {
  const jobs = new Map<string, readonly JobId[]>();
  for (const { jobId, gpus } of leases.values())
    for (const { host } of gpus) {
      const known = jobs.get(host) ?? [];
      if (!known.includes(jobId)) jobs.set(host, [...known, jobId]);
    }
  return jobs;
}

function heldByTenant({
  leases,
  shape,
}: Ledger): ReadonlyMap<string, Readonly<Record<string, number>>> {
  const types = new Map<string, string>(
    shape.clusters.flatMap(({ hosts }) => hosts.map(({ id, gpuType }) => [id, gpuType] as const)),
  );
  const held = new Map<string, Record<string, number>>();
  for (const { tenant, gpus } of leases.values()) {
    const own = held.get(tenant) ?? {};
    for (const { host, mask } of gpus) {
      const type = types.get(host) ?? "unknown";
      own[type] = (own[type] ?? 0) + popCount(mask);
    }
    held.set(tenant, own);
  }
  return held;
}

const SIGNS = { added: "+", removed: "-", changed: "~" } as const;

/** One line for each change. */
export function fleetChangesText(changes: readonly FleetChange[]): string {
  if (changes.length === 0) return "nothing would change";
  return changes.map(lineOf).join("\n");
}

function lineOf({ change, what, id, path, was, is, jobs = [], holds = {} }: FleetChange): string {
  const name = what === "policy" ? "policy" : `${what} ${id}`;
  const values = path === undefined ? "" : ` ${path}: ${was ?? ""} before, ${is ?? ""} then`;
  const used = jobs.length === 0 ? "" : `; used by ${jobs.join(", ")}, which keep it`;
  const held = Object.entries(holds).map(([type, count]) => `${String(count)} ${type}`);
  const holding = held.length === 0 ? "" : `; holds ${held.join(", ")} now`;
  return `${SIGNS[change]} ${name}${values}${used}${holding}`;
}
