/**
 * @file What a fleet's ledger says at the moment of a scrape: GPUs and hosts by state, who waits and why, shares, and how the free GPUs lie.
 *
 * Every GPU is in exactly one state. Cost: O(hosts + leases + requests).
 */

import { Gauge, type OpenMetricsContentType, type Registry } from "prom-client";
import { JOB_CLASSES } from "../../domain/job/job.ts";
import { popCount, type HostGpus } from "../../domain/lease/lease.ts";
import type { HostId } from "../../domain/values/ids.ts";
import { sharesNow } from "../../scheduling/explain/queue-order.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import { drainedMask } from "../../scheduling/ledger/rules/gpu-drains.ts";
import { hostConditionOf } from "../../scheduling/ledger/rules/grant-check.ts";
import { takenGpus } from "../../scheduling/ledger/rules/usage.ts";

interface GaugeSpec {
  readonly help: string;
  readonly labels: readonly string[];
}

const spec = (help: string, ...labels: readonly string[]): GaugeSpec => ({ help, labels });

const GAUGES = {
  gpus: spec("GPUs by state; the states add up to the fleet.", "cluster", "type", "state"),
  hosts: spec("Hosts by condition; new work starts on ready ones.", "cluster", "condition"),
  largest_free_host_gpus: spec("The most free GPUs on one ready host.", "cluster"),
  fragmentation_ratio: spec(
    "Part of the free GPUs that lies on hosts where others are taken; 0 where nothing is free.",
    "cluster",
  ),
  pending_jobs: spec("Jobs that wait inside the fleet, by reason.", "class", "reason"),
  pending_gpus: spec("GPUs that these jobs ask for.", "class", "reason"),
  oldest_pending_seconds: spec("Age of the job that has waited longest.", "class"),
  lobby_jobs: spec("Jobs that wait outside the fleet, in lobbies.", "class"),
  tenant_gpus: spec(
    "GPUs that a tenant holds (held), those that are due to it now (due), those it waits for (demand), and its quota for all types.",
    "tenant",
    "kind",
  ),
  flow_gpus: spec(
    "GPUs that a class holds (held), and those that are due to it now (due).",
    "class",
    "kind",
  ),
  flow_deficit_gpu_seconds: spec(
    "GPU-seconds that are due to a class and have not been served; below 0: served too much.",
    "class",
  ),
  flow_received_gpu_seconds: spec(
    "GPU-seconds that a class has received, as far as the ledger remembers.",
    "class",
  ),
  leases: spec("Leases.", "class"),
  dead_letters: spec("Kept entries that the fleet could not understand."),
} as const;
type GaugeName = keyof typeof GAUGES;

const OF_EACH_CLASS = [
  "oldest_pending_seconds",
  "lobby_jobs",
  "flow_deficit_gpu_seconds",
  "flow_received_gpu_seconds",
  "leases",
] as const satisfies readonly GaugeName[];

/** `busy` GPUs run a job; an `unusable` one is free and drained, or on a host that takes no work. */
const GPU_STATES = ["free", "reserved", "granted", "busy", "vacating", "unusable"] as const;
type GpuState = (typeof GPU_STATES)[number];
const CONDITIONS = ["ready", "drained", "silent", "fenced", "agentless"] as const;
type TenantOf = (tenant: string) => string;
/** Adds to a series; the values of its labels stand in the order of the specification. */
type Add = (name: GaugeName, value: number, ...labels: readonly string[]) => void;

export interface FleetGauges {
  /** Sets all of them to what this ledger says. */
  readonly read: (ledger: Ledger, nowMs: number) => void;
}

export function fleetGauges(
  registry: Registry<OpenMetricsContentType>,
  tenantOf: TenantOf,
): FleetGauges {
  const gauges = Object.entries(GAUGES).map(([name, { help, labels }]) => {
    const labelNames = [...labels];
    const gauge = new Gauge({
      name: `orbweaver_${name}`,
      help,
      labelNames,
      registers: [registry],
    });
    return { name, labels, gauge };
  });
  return {
    read(ledger, nowMs) {
      // Summed here, because a gauge sorts its labels anew for every value.
      const sums = new Map<string, Map<string, number>>();
      const add: Add = (name, value, ...labels) => {
        const key = labels.join("\0");
        const ofName = sums.get(name) ?? new Map<string, number>();
        ofName.set(key, (ofName.get(key) ?? 0) + value);
        sums.set(name, ofName);
      };
      addHosts(ledger, add);
      addQueue(ledger, add, nowMs);
      addTenants(ledger, add, tenantOf);
      addShares(ledger, add, { nowMs, tenantOf });
      for (const { name, labels, gauge } of gauges) {
        gauge.reset();
        for (const [key, value] of sums.get(name) ?? []) {
          const values = key.split("\0");
          gauge.set(
            Object.fromEntries(labels.map((label, at) => [label, values[at] ?? ""])),
            value,
          );
        }
      }
    },
  };
}

function addHosts(ledger: Ledger, add: Add): void {
  const states = statesOf(ledger);
  for (const { id: cluster, hosts } of ledger.shape.clusters) {
    for (const condition of CONDITIONS) add("hosts", 0, cluster, condition);
    for (const type of new Set(hosts.map(({ gpuType }) => gpuType)))
      for (const state of GPU_STATES) add("gpus", 0, cluster, type, state);
    const free = { gpus: 0, onBroken: 0, largest: 0 };
    for (const { id, gpuCount, gpuType } of hosts) {
      const condition = hostConditionOf(ledger.hosts.get(id));
      add("hosts", 1, cluster, condition ?? "ready");
      let left = gpuCount;
      let taken = 0;
      for (const [state, mask] of states.get(id) ?? []) {
        add("gpus", popCount(mask), cluster, gpuType, state);
        left -= popCount(mask);
        taken |= mask;
      }
      const out = popCount(drainedMask(ledger.hosts.get(id)) & ~taken);
      add("gpus", out, cluster, gpuType, "unusable");
      left -= out;
      const state: GpuState = condition === undefined ? "free" : "unusable";
      add("gpus", left, cluster, gpuType, state);
      if (condition !== undefined) continue;
      free.gpus += left;
      free.onBroken += left < gpuCount ? left : 0;
      free.largest = Math.max(free.largest, left);
    }
    add("largest_free_host_gpus", free.largest, cluster);
    add("fragmentation_ratio", free.gpus === 0 ? 0 : free.onBroken / free.gpus, cluster);
  }
}

function addQueue(ledger: Ledger, add: Add, nowMs: number): void {
  const { requests, reasons, intake, leases, deadLetters } = ledger;
  // A series that is there from the first scrape on says 0, and not nothing.
  for (const name of JOB_CLASSES) for (const gauge of OF_EACH_CLASS) add(gauge, 0, name);
  const since = new Map<string, number>();
  for (const request of requests.values()) {
    const { jobId, submittedAtMs, gang, slots = 1 } = request;
    const reason = reasons.get(jobId)?.code ?? "NotYetLookedAt";
    add("pending_jobs", 1, request.class, reason);
    add("pending_gpus", gang.gpus * slots, request.class, reason);
    since.set(request.class, Math.min(since.get(request.class) ?? Infinity, submittedAtMs));
  }
  for (const [name, sinceMs] of since)
    add("oldest_pending_seconds", Math.max(0, nowMs - sinceMs) / 1_000, name);
  for (const { waiting } of intake?.lobbies.values() ?? [])
    for (const name of JOB_CLASSES) add("lobby_jobs", waiting[name], name);
  for (const lease of leases.values()) add("leases", 1, lease.class);
  add("dead_letters", deadLetters.length);
}

function addShares(
  ledger: Ledger,
  add: Add,
  { nowMs, tenantOf }: { readonly nowMs: number; readonly tenantOf: TenantOf },
): void {
  for (const name of JOB_CLASSES)
    for (const kind of ["held", "due"]) add("flow_gpus", 0, name, kind);
  for (const flow of sharesNow(ledger, nowMs).classes) {
    add("flow_deficit_gpu_seconds", flow.deficitGpuSeconds, flow.class);
    add("flow_received_gpu_seconds", flow.receivedGpuSeconds, flow.class);
    add("flow_gpus", flow.runningGpus, flow.class, "held");
    add("flow_gpus", flow.dueGpus, flow.class, "due");
    for (const { tenant, dueGpus } of flow.tenants) {
      add("tenant_gpus", dueGpus, tenantOf(tenant), "due");
      // Both are there, so that one can be taken from the other.
      add("tenant_gpus", 0, tenantOf(tenant), "held");
    }
  }
}

function addTenants({ shape, leases, requests }: Ledger, add: Add, tenantOf: TenantOf): void {
  for (const { id, quota } of shape.tenants) {
    const most = quota["*"];
    if (most !== undefined) add("tenant_gpus", most, tenantOf(id), "quota");
  }
  for (const lease of leases.values())
    for (const { mask } of takenGpus(lease))
      add("tenant_gpus", popCount(mask), tenantOf(lease.tenant), "held");
  for (const { tenant, gang, slots = 1 } of requests.values())
    add("tenant_gpus", gang.gpus * slots, tenantOf(tenant), "demand");
}

/** GPUs that are not free, by host, as masks. A reservation on GPUs that somebody still holds adds nothing. */
function statesOf({
  leases,
  reservations,
}: Ledger): ReadonlyMap<HostId, ReadonlyMap<GpuState, number>> {
  const states = new Map<HostId, Map<GpuState, number>>();
  const taken = new Map<HostId, number>();
  const add = (state: GpuState, gpus: readonly HostGpus[]): void => {
    for (const { host, mask } of gpus) {
      const found = mask & ~(taken.get(host) ?? 0);
      if (found === 0) continue;
      taken.set(host, (taken.get(host) ?? 0) | found);
      const ofHost = states.get(host) ?? new Map<GpuState, number>();
      ofHost.set(state, (ofHost.get(state) ?? 0) | found);
      states.set(host, ofHost);
    }
  };
  for (const lease of leases.values())
    add(lease.state === "held" ? "busy" : lease.state, takenGpus(lease));
  for (const { gpus } of reservations?.values() ?? []) add("reserved", gpus);
  return states;
}
