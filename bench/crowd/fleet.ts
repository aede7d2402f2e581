/** @file The fleet of a crowd, and a decider that costs next to nothing: the oldest requests on the first free GPUs. */

import { DEFAULT_POLICY, type FleetShape } from "../../domain/fleet/fleet.ts";
import type { InboxEntry } from "../../domain/lease/inbox-entry.ts";
import { MAX_PLAN_ITEMS, type Plan } from "../../domain/lease/plan.ts";
import { clusterId, hostId, type TenantId } from "../../domain/values/ids.ts";
import { gib, watts } from "../../domain/values/units.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import { indexOf, type Jobs } from "./jobs.ts";

const CLUSTER = clusterId("crowd");
const GPUS_PER_HOST = 8;

export function crowdShape(
  gpus: number,
  places: number,
  tenants: ReadonlySet<TenantId>,
): FleetShape {
  const hosts = Array.from({ length: Math.ceil(gpus / GPUS_PER_HOST) }, (_, at) => ({
    id: hostId(CLUSTER, `h${String(at)}`),
    gpuType: "H100",
    gpuCount: GPUS_PER_HOST,
    gpuMemoryGiB: gib(80),
    gpuWatts: watts(700),
  }));
  return {
    clusters: [{ id: CLUSTER, site: "crowd", jurisdiction: "EU", hosts, isSimulated: true }],
    links: [],
    tenants: [...tenants].map((id) => ({ id, weight: 1, quota: {}, borrowingLimit: 0 })),
    policy: { ...DEFAULT_POLICY, places },
  };
}

export const helloOf = ({ clusters }: FleetShape): InboxEntry => ({
  kind: "agent-registered",
  hosts: clusters.flatMap(({ hosts }) => hosts.map(({ id }) => id)),
  agent: { epoch: "1", runQueue: "run", orderQueue: "orders", address: "127.0.0.1" },
  running: [],
  highestToken: 0,
});

/** Cost: O(GPUs + requests). */
export function cheapPlan({ shape, leases, requests }: Ledger, jobs: Jobs): Plan {
  const taken = new Map<string, number>();
  for (const { gpus } of leases.values())
    for (const { host, mask } of gpus) taken.set(host, (taken.get(host) ?? 0) | mask);
  const free = shape.clusters.flatMap(({ hosts }) =>
    hosts.flatMap(({ id, gpuCount }) =>
      Array.from({ length: gpuCount }, (_, gpu) => 1 << gpu)
        .filter((mask) => ((taken.get(id) ?? 0) & mask) === 0)
        .map((mask) => ({ host: id, mask })),
    ),
  );
  const items: Plan["items"][number][] = [];
  for (const { jobId, runId, seq } of requests.values()) {
    const gpu = free[items.length];
    if (gpu === undefined || items.length >= MAX_PLAN_ITEMS) break;
    if (jobs.isImpossible(indexOf(jobId))) continue;
    items.push({
      kind: "grant",
      request: { jobId, runId, seq },
      gpus: [gpu],
      reason: "the first free GPU",
    });
  }
  return { items, pending: [], stats: { method: "decide", candidates: items.length } };
}
