/**
 * @file Ledgers of a large, full fleet in the middle of its life: drawn from a seed, each the next hour of the one before.
 *
 * Hosts of 8 GPUs in 20 clusters of three GPU types; tenants with quotas; gangs as a shared cluster sees them, mostly small and
 * a few over many hosts. The fleet is filled by its own `decide` and `apply`; then, again and again, a part of the leases ends,
 * new requests come in until the asked number waits or no more fit, those that
 * had to wait outside first, and that is the ledger of the next measured cycle.
 */

import type { ClusterShape, FleetShape } from "../../domain/fleet/fleet.ts";
import {
  clusterId,
  hostId,
  jobId,
  runId,
  tenantId,
  type HostId,
  type JobId,
} from "../../domain/values/ids.ts";
import { JOB_CLASSES } from "../../domain/job/job.ts";
import { gbps, gib, ms, watts } from "../../domain/values/units.ts";
import type { GangRequest } from "../../domain/lease/lease.ts";
import { apply, emptyLedger } from "../../scheduling/ledger/apply/apply.ts";
import { decide } from "../../scheduling/cycle/decide.ts";
import type { Applied, Ledger } from "../../scheduling/ledger/ledger.ts";
import type { Draw } from "../statistics.ts";

interface LargeFleet {
  readonly gpus: number;
  readonly requests: number;
}

const CLUSTERS = 20;
const GPUS_PER_HOST = 8;
const GPU_TYPES = ["H100", "A100-80", "L40S"] as const;
const JURISDICTIONS = ["EU", "US", "SG"] as const;
const TENANTS = 12;
/** Sizes of gangs with their weights: two thirds are one GPU, as in public traces of shared clusters. */
const SIZES: readonly (readonly [gpus: number, weight: number])[] = [
  [1, 64],
  [2, 8],
  [4, 8],
  [8, 12],
  [16, 5],
  [32, 2],
  [64, 1],
];
const ARRIVAL_MS = 37;
const START_MS = Date.UTC(2026, 0, 1);
const ENTRIES_PER_BATCH = 500;
/** A full fleet is reached after a few dozen cycles. */
const MOST_FILLING_CYCLES = 200;

export interface LedgerNow {
  readonly ledger: Ledger;
  readonly nowMs: number;
}

/** The ledgers, one after the other; the caller's cycle does not change them. */
export function* largeLedgers(size: LargeFleet, draw: Draw): Generator<LedgerNow> {
  const shape = largeShape(size.gpus);
  const hosts = shape.clusters.flatMap((cluster) => cluster.hosts.map(({ id }) => id));
  let nowMs = START_MS;
  let arrived = 0;
  let ledger = withAgents(emptyLedger(shape), hosts, nowMs);
  const lobby = openLobby();
  const arrive = (requests: readonly GangRequest[]): void => {
    const entries = requests.map((request) => ({ kind: "request", request }));
    ledger = lobby.take(apply(ledger, { kind: "inbox", entries, nowMs }), requests, nowMs);
  };
  const topUp = (): void => {
    let before = -1;
    while (ledger.requests.size < size.requests && ledger.requests.size > before) {
      before = ledger.requests.size;
      const missing = Math.min(ENTRIES_PER_BATCH, size.requests - ledger.requests.size);
      const called = lobby.callIn(ledger, missing);
      const drawn = (): GangRequest => {
        nowMs += ARRIVAL_MS;
        arrived += 1;
        return drawnRequest(draw, arrived, nowMs);
      };
      arrive(called.length > 0 ? called : Array.from({ length: missing }, drawn));
    }
  };
  const cycle = (): number => {
    nowMs += 1_000;
    const plan = decide(ledger, nowMs);
    const { ledger: next, granted } = apply(ledger, { kind: "plan", plan, nowMs });
    ledger = apply(next, { kind: "delivered", accepted: granted, gone: [], nowMs }).ledger;
    return granted.length;
  };

  topUp();
  for (let round = 0; round < MOST_FILLING_CYCLES && cycle() > 0; round += 1) topUp();
  for (;;) {
    const share = 0.02 + 0.1 * draw.unit();
    const ending = [...ledger.leases.values()].filter(() => draw.unit() < share);
    nowMs += 60_000;
    const entries = ending.map((lease) => ({
      kind: "end",
      jobId: lease.jobId,
      runId: lease.runId,
      seq: lease.seq,
      unconfirmedHosts: [],
    }));
    ledger = apply(ledger, { kind: "inbox", entries, nowMs }).ledger;
    topUp();
    yield { ledger, nowMs };
    cycle();
  }
}

/** The requests that the fleet put outside, which come in again with the fleet's credits, as those of lobbies do. */
function openLobby() {
  const outside = new Map<JobId, GangRequest>();
  return {
    /** What an event put outside; the fleet is told that its lobbies know. */
    take(applied: Applied, requests: readonly GangRequest[], nowMs: number): Ledger {
      const byJob = new Map(requests.map((request) => [request.jobId, request]));
      for (const { jobId: job } of applied.outside) {
        const request = byJob.get(job);
        if (request !== undefined) outside.set(job, request);
      }
      const { intake } = applied.ledger;
      if (intake === undefined || intake.news.size === 0) return applied.ledger;
      const rows = [...intake.news].map(([job, { runId: run, seq }]) => ({
        jobId: job,
        runId: run,
        seq,
      }));
      return apply(applied.ledger, { kind: "lobbies-told", rows, credits: [], nowMs }).ledger;
    },
    /** At most so many, each with a credit of its tenant and class. */
    callIn({ intake }: Ledger, most: number): readonly GangRequest[] {
      const called: GangRequest[] = [];
      for (const [tenant, { credits }] of intake?.lobbies ?? [])
        for (const [credit, { class: jobClass }] of credits) {
          if (called.length >= most) return called;
          const next = [...outside.values()].find(
            (request) => request.tenant === tenant && request.class === jobClass,
          );
          if (next === undefined) continue;
          outside.delete(next.jobId);
          called.push({ ...next, credit });
        }
      return called;
    },
  };
}

function largeShape(gpus: number): FleetShape {
  const hostCount = Math.ceil(gpus / GPUS_PER_HOST);
  const clusterCount = Math.min(CLUSTERS, hostCount);
  const clusters = Array.from({ length: clusterCount }, (_, at): ClusterShape => {
    const id = clusterId(`c${String(at)}`);
    const first = Math.floor((hostCount * at) / clusterCount);
    const end = Math.floor((hostCount * (at + 1)) / clusterCount);
    return {
      id,
      site: `site-${String(at % 7)}`,
      jurisdiction: JURISDICTIONS[at % JURISDICTIONS.length] ?? "EU",
      fabricGbps: gbps(400),
      powerBudgetWatts: watts((end - first) * GPUS_PER_HOST * 700),
      hosts: Array.from({ length: end - first }, (__, index) => ({
        id: hostId(id, `h${String(index)}`),
        gpuType: GPU_TYPES[at % GPU_TYPES.length] ?? "H100",
        gpuCount: GPUS_PER_HOST,
        gpuMemoryGiB: gib(80),
        gpuWatts: watts(700),
      })),
      isSimulated: false,
    };
  });
  const perType = Math.ceil(gpus / GPU_TYPES.length / TENANTS);
  const tenants = Array.from({ length: TENANTS }, (_, at) => ({
    id: tenantId(`tenant-${String(at)}`),
    weight: 1 + (at % 3),
    quota: Object.fromEntries(GPU_TYPES.map((type) => [type, 2 * perType])),
    borrowingLimit: perType,
  }));
  return { clusters, links: [], tenants };
}

/** Each host has an agent of its own, with queues and an epoch of its own, as in a real fleet. */
function withAgents(ledger: Ledger, hosts: readonly HostId[], nowMs: number): Ledger {
  const entries = hosts.map((id, at) => {
    const epoch = `${(nowMs + at).toString(36)}${at.toString(16).padStart(6, "0")}`;
    const name = `large.${id.replace("/", ".")}.${epoch}`;
    return {
      kind: "agent-registered",
      hosts: [id],
      agent: {
        epoch,
        runQueue: `run.${name}`,
        orderQueue: `order.${name}`,
        address: `${id.slice(id.indexOf("/") + 1)}.example.net`,
      },
      running: [],
      highestToken: 0,
    };
  });
  return apply(ledger, { kind: "inbox", entries, nowMs }).ledger;
}

export function drawnRequest(draw: Draw, number: number, nowMs: number): GangRequest {
  const gpus = drawnSize(draw);
  const isPicky = draw.unit() < 0.3;
  const min = draw.unit() < 0.25 ? Math.max(1, gpus / 2) : gpus;
  return {
    jobId: jobId(`train-${String(number)}-${draw.below(36 ** 6).toString(36)}`),
    runId: runId(drawnUuid(draw)),
    seq: 1,
    name: `train-${String(draw.below(400))}`,
    tenant: tenantId(`tenant-${String(draw.below(TENANTS))}`),
    class: draw.of(JOB_CLASSES),
    priority: draw.below(5) * 100,
    gang: { gpus, min, timeoutMs: ms(30_000 + 1_000 * draw.below(600)) },
    constraints: {
      isSameHost: gpus <= GPUS_PER_HOST && draw.unit() < 0.3,
      isSameFabric: gpus > GPUS_PER_HOST,
      ...(isPicky && { gpuTypes: [draw.of(GPU_TYPES)] }),
      ...(draw.unit() < 0.2 && { jurisdictions: [draw.of(JURISDICTIONS)] }),
    },
    submittedAtMs: nowMs,
    requestedAtMs: nowMs,
  };
}

/** As the server makes run ids. */
function drawnUuid(draw: Draw): string {
  const hex = Array.from({ length: 32 }, () => draw.below(16).toString(16)).join("");
  return [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `4${hex.slice(13, 16)}`,
    `a${hex.slice(17, 20)}`,
    hex.slice(20),
  ].join("-");
}

function drawnSize(draw: Draw): number {
  let left = draw.below(SIZES.reduce((sum, [, weight]) => sum + weight, 0));
  for (const [gpus, weight] of SIZES) {
    if (left < weight) return gpus;
    left -= weight;
  }
  return 1;
}
