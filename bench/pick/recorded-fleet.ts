/**
 * @file A recorded fleet: 300 drawn jobs played on the hosts of a truth by the product's own `decide` and `apply`, and what was free at each grant.
 *
 * Jobs of three tenants come in a Poisson stream that asks for more than the fleet has, so that gangs wait, have reservations and preempt:
 * seven of ten train, the others are interactive sessions and inference. Sizes are log-uniform, run times exponential. Every grant is
 * recorded with the GPUs that no lease held just before it and with those of them that were reserved for other jobs; no method is asked
 * what it thinks of itself.
 */

import { DEFAULT_POLICY } from "../../domain/fleet/fleet.ts";
import type { JobClass } from "../../domain/job/job.ts";
import { gpuCountOf, type HostGpus, type Reservation } from "../../domain/lease/lease.ts";
import type { Plan } from "../../domain/lease/plan.ts";
import type { HostId, JobId } from "../../domain/values/ids.ts";
import { fullMask } from "../../lib/bits.ts";
import { randomFrom } from "../../lib/random.ts";
import { openSession } from "../../scheduling/cycle/live-scheduler.ts";
import type { DecidePorts } from "../../scheduling/cycle/cycle.ts";
import type { BandwidthDomain } from "../../domain/bandwidth/bandwidth-port.ts";
import { schedulerBut, type OpenScheduler } from "../../simulator/scheduler.ts";
import { runSimulation } from "../../simulator/simulate.ts";
import type { Workload, WorkloadJob } from "../../simulator/workload.ts";
import { simulatedShape } from "./simulated-shape.ts";

export type GrantKind = "at once" | "head" | "preempting";

export interface RecordedGrant {
  readonly gpus: readonly HostGpus[];
  /** Of the granted size. */
  readonly size: number;
  /** `head`: the job had a reservation; `preempting`: one that evictions made room for. */
  readonly kind: GrantKind;
  /** By host of the domain, just before: GPUs in no lease, and those of them that no other job's reservation held, its own GPUs included. */
  readonly freeMasks: readonly number[];
  readonly openMasks: readonly number[];
}

export interface RecordedFleet {
  readonly grants: readonly RecordedGrant[];
  readonly evictions: number;
}

interface Recording {
  readonly jobs: number;
  readonly seed: number;
  /** The largest gang. */
  readonly largest: number;
  readonly ports: DecidePorts;
}

/** GPU-time that is asked for, of what there is. */
const LOAD = 0.9;
const MEAN_RUN_MS = 30 * 60_000;

export function recordFleet(domain: BandwidthDomain, recording: Recording): RecordedFleet {
  const fleet = simulatedShape(
    domain.hosts.map((host) => ({ ...host, rack: "r0" })),
    // What is judged are picks among GPUs that are open; those kept free for inference are open to nobody else.
    { ...DEFAULT_POLICY, maxReserveShare: 0 },
  );
  const workload = drawnJobs(domain, recording);
  const grants: RecordedGrant[] = [];
  let evictions = 0;
  const openScheduler: OpenScheduler = (ledger) => {
    const session = openSession(ledger, { ports: recording.ports });
    return schedulerBut(session, {
      apply: (event) => {
        if (event.kind === "plan") {
          grants.push(...grantsOf(domain, event.plan, session.ledger));
          evictions += event.plan.evict?.length ?? 0;
        }
        return session.apply(event);
      },
    });
  };
  runSimulation({ fleet, workload, policy: "live", openScheduler, seed: recording.seed });
  return { grants, evictions };
}

type Before = ReturnType<typeof openSession>["ledger"];

function grantsOf(
  domain: BandwidthDomain,
  { items, reserve = [] }: Plan,
  { leases, reservations }: Before,
): readonly RecordedGrant[] {
  const busy = new Map<HostId, number>();
  const take = (gpus: readonly HostGpus[]): void => {
    for (const { host, mask } of gpus) busy.set(host, (busy.get(host) ?? 0) | mask);
  };
  for (const { gpus } of leases.values()) take(gpus);
  // A reservation that ends in this plan held until its job's turn.
  const held: readonly Held[] = [...(reservations?.values() ?? []), ...reserve];
  const started = new Set<JobId>();
  return items.map((item) => {
    const { jobId } = item.request;
    const kept = maskOf(held.filter((each) => each.jobId !== jobId && !started.has(each.jobId)));
    const freeMasks = domain.hosts.map(
      ({ id, gpuCount }) => fullMask(gpuCount) & ~(busy.get(id) ?? 0),
    );
    const own = maskOf([item]);
    const openMasks = domain.hosts.map(
      ({ id }, host) => (freeMasks[host] ?? 0) & (~(kept.get(id) ?? 0) | (own.get(id) ?? 0)),
    );
    const before = reservations?.get(jobId);
    take(item.gpus);
    started.add(jobId);
    return {
      gpus: item.gpus,
      size: gpuCountOf(item.gpus),
      kind: before === undefined ? "at once" : before.kind === "preemption" ? "preempting" : "head",
      freeMasks,
      openMasks,
    };
  });
}

type Held = Pick<Reservation, "jobId" | "gpus">;

function maskOf(held: readonly Pick<Held, "gpus">[]): ReadonlyMap<HostId, number> {
  const masks = new Map<HostId, number>();
  for (const { gpus } of held)
    for (const { host, mask } of gpus) masks.set(host, (masks.get(host) ?? 0) | mask);
  return masks;
}

const TENANTS = ["red", "green", "blue"] as const;

function drawnJobs({ hosts }: BandwidthDomain, { jobs, seed, largest }: Recording): Workload {
  const random = randomFrom(seed, "recorded fleet");
  const gpus = hosts.reduce((sum, { gpuCount }) => sum + gpuCount, 0);
  const drawn = Array.from({ length: jobs }, () => {
    const size = Math.max(2, Math.floor(2 ** (random.unit() * Math.log2(largest + 1))));
    const durationMs = Math.max(60_000, -Math.log(1 - random.unit()) * MEAN_RUN_MS);
    const kind = random.unit();
    const jobClass: JobClass = kind < 0.7 ? "training" : kind < 0.85 ? "interactive" : "inference";
    return {
      size: jobClass === "training" ? size : Math.min(size, 4),
      durationMs,
      jobClass,
      tenant: TENANTS[random.below(TENANTS.length)] ?? "red",
      isElastic: random.unit() < 0.3,
      gap: -Math.log(1 - random.unit()),
    };
  });
  const work = drawn.reduce((sum, { size, durationMs }) => sum + size * durationMs, 0);
  const meanGapMs = work / (gpus * LOAD * jobs);
  let atMs = 0;
  const list = drawn.map((one, at): WorkloadJob => {
    atMs += Math.round(one.gap * meanGapMs);
    return {
      id: `job-${String(at)}`,
      submittedAtMs: atMs,
      durationMs: one.durationMs,
      gpus: one.size,
      ...(one.isElastic && one.size > 2 && { minGpus: Math.ceil(one.size / 2) }),
      class: one.jobClass,
      tenant: one.tenant,
      estimateMs: Math.round(one.durationMs * 1.2),
    };
  });
  return { name: "recorded fleet", jobs: list, tenants: [], notes: [] };
}
