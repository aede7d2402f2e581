/**
 * @file The fleet with one of its limits lifted: a host condition, a tenant's quota, power and cooling, or maintenance; and the fleet without
 * any load. Cost: O(hosts).
 */

import type { FleetShape } from "../../domain/fleet/fleet.ts";
import type { HostId } from "../../domain/values/ids.ts";
import type { PendingRequest } from "../../domain/lease/plan.ts";
import { outageOf, isSuitable, type Outage } from "../ledger/rules/grant-check.ts";
import { indexFleet } from "../ledger/rules/fleet-index.ts";
import type { HostStatus, Ledger } from "../ledger/ledger.ts";

/** The hosts of the ledger as if those that suit the request and are out so were ready, with their names. */
export function withReadyHosts(
  { hosts, shape }: Ledger,
  request: PendingRequest,
  outage: Outage,
): { readonly hosts: Ledger["hosts"]; readonly names: readonly HostId[] } {
  const names = [...indexFleet(shape).places.values()]
    .filter((place) => isSuitable(request, place))
    .map(({ host }) => host.id)
    .filter((id) => outageOf(hosts.get(id)) === outage);
  const changed = new Map(hosts);
  for (const id of names) {
    const { gpuDrains } = hosts.get(id) ?? {};
    // A drain of the host and drains of its GPUs end apart.
    const kept = outage === "gpus-drained" || gpuDrains === undefined ? {} : { gpuDrains };
    changed.set(id, { agent: SOME_AGENT, ...undrained(hosts.get(id)), ...kept });
  }
  return { hosts: changed, names };
}

/** The fleet with nothing on it but this request, which takes any size that it ever takes: every host is ready, and no host is under maintenance. */
export function idleFleet(ledger: Ledger, request: PendingRequest): Ledger {
  const { applyVersion, detailsHash, models, nextToken, nextArrival } = ledger;
  const shape = withoutMaintenance(ledger.shape) ?? ledger.shape;
  const ids = shape.clusters.flatMap(({ hosts }) => hosts.map(({ id }) => id));
  const waited = { ...request, requestedAtMs: request.requestedAtMs - request.gang.timeoutMs };
  return {
    applyVersion,
    shape,
    ...(detailsHash !== undefined && { detailsHash }),
    ...(models !== undefined && { models }),
    nextToken,
    nextArrival,
    requests: new Map([[request.jobId, waited]]),
    reasons: new Map(),
    leases: new Map(),
    hosts: new Map(
      ids.map((id) => [id, { agent: SOME_AGENT, ...undrained(ledger.hosts.get(id)) }] as const),
    ),
    outbox: new Map(),
    deadLetters: [],
  };
}

function undrained(status: HostStatus | undefined): HostStatus {
  const { agent } = status ?? {};
  return { ...(agent !== undefined && { agent }), isDrained: false };
}

/** Nothing is sent to this agent: the plan is thrown away. */
const SOME_AGENT = { epoch: "", runQueue: "", orderQueue: "", address: "" };

export function withoutQuota(
  shape: FleetShape,
  { tenant }: PendingRequest,
): FleetShape | undefined {
  if (shape.tenants.every(({ id }) => id !== tenant)) return undefined;
  const tenants = shape.tenants.map((rule) => (rule.id === tenant ? { ...rule, quota: {} } : rule));
  return { ...shape, tenants };
}

export function withoutWatts(shape: FleetShape): FleetShape | undefined {
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

export function withoutMaintenance(shape: FleetShape): FleetShape | undefined {
  if (shape.clusters.every(({ maintenance }) => maintenance === undefined)) return undefined;
  const clusters = shape.clusters.map(({ maintenance: _over, ...cluster }) => cluster);
  return { ...shape, clusters };
}
