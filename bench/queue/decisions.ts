/**
 * @file Decisions per second on a full fleet of 640 hosts with 8 GPUs, racks and topology.
 *
 * A decision is a grant that was decided and applied. The fleet is filled first and kept full: in every turn some leases end, as many
 * jobs come, and one cycle decides; events, cycle and plan are all timed. The ledger keeps its invariants, or the figure is void.
 */

import type { ClusterShape, FleetShape } from "../../domain/fleet/fleet.ts";
import { clusterId, hostId, jobId, runId, tenantId } from "../../domain/values/ids.ts";
import { gbps, gib, ms, watts } from "../../domain/values/units.ts";
import type { GangRequest, Lease } from "../../domain/lease/lease.ts";
import { apply, checkLedger, emptyLedger } from "../../scheduling/ledger/apply/apply.ts";
import { DECIDE_LIMITS } from "../../scheduling/cycle/decide.ts";
import { tawfq } from "../../scheduling/cycle/policy-sets.ts";
import { openSession, type Session } from "../../scheduling/cycle/live-scheduler.ts";
import { drawFrom, quantile, type Draw } from "../statistics.ts";

interface DecisionsRequest {
  readonly seed: number;
  readonly hosts: number;
  /** Grants that are timed. */
  readonly decisions: number;
  /** Jobs that wait all the time. */
  readonly waiting: number;
}

interface DecisionFigures {
  /** Grants in a second of events, cycles and plans together. */
  readonly decisionsPerSecond: number;
  /** The same by processor time, which a busy machine does not falsify. */
  readonly decisionsPerCpuSecond: number;
  readonly decisions: number;
  readonly cycles: number;
  readonly cycleP50Ms: number;
  readonly cycleP99Ms: number;
}

const GPUS_PER_HOST = 8;
const HOSTS_PER_RACK = 8;
const CLUSTERS = 4;
const TENANTS = 10;
/** Leases that end in one turn, at most. */
const ENDING = 40;
const CLASSES = ["training", "training", "interactive", "inference"] as const;
const SIZES = [1, 1, 1, 1, 2, 4, 8, 8, 16, 64] as const;

export function measureDecisions(request: DecisionsRequest): DecisionFigures {
  const draw = drawFrom(request.seed);
  const limits = { ...DECIDE_LIMITS, maxReasons: 0, freshReasons: 0 };
  const session = openSession(fullOfAgents(request.hosts), { policies: tawfq, limits });
  let nowMs = 0;
  let arrived = 0;
  const arrive = (): void => {
    const entries: unknown[] = [];
    while (session.ledger.requests.size + entries.length < request.waiting) {
      arrived += 1;
      entries.push({ kind: "request", request: drawnRequest(draw, arrived, nowMs) });
    }
    session.apply({ kind: "inbox", entries, nowMs });
  };
  const cycle = (): number => {
    const plan = session.decide(nowMs);
    const { granted, refusals } = session.apply({ kind: "plan", plan, nowMs });
    const [refused] = refusals;
    if (refused !== undefined) throw new Error(`the plan was refused: ${refused.message}`);
    session.apply({ kind: "delivered", accepted: granted, gone: [], nowMs });
    return granted.length;
  };
  const turn = (): number => {
    nowMs += 1_000;
    const ending = drawnLeases(session, draw);
    session.apply({ kind: "inbox", entries: ending.map(endOf), nowMs });
    arrive();
    return cycle();
  };
  arrive();
  for (let at = 0; at < 200 && cycle() > 0; at += 1) arrive();
  for (let at = 0; at < 20; at += 1) turn();
  let decisions = 0;
  const cyclesMs: number[] = [];
  const cpuBefore = process.cpuUsage();
  const startMs = performance.now();
  while (decisions < request.decisions && cyclesMs.length < request.decisions) {
    const turnMs = performance.now();
    decisions += turn();
    cyclesMs.push(performance.now() - turnMs);
  }
  const seconds = (performance.now() - startMs) / 1_000;
  const { user, system } = process.cpuUsage(cpuBefore);
  const broken = checkLedger(session.ledger);
  if (broken.length > 0) throw new Error(`the ledger is broken: ${broken.join("; ")}`);
  return {
    decisionsPerSecond: decisions / seconds,
    decisionsPerCpuSecond: decisions / ((user + system) / 1e6),
    decisions,
    cycles: cyclesMs.length,
    cycleP50Ms: quantile(cyclesMs, 0.5),
    cycleP99Ms: quantile(cyclesMs, 0.99),
  };
}

function drawnLeases({ ledger }: Session, draw: Draw): readonly Lease[] {
  const all = [...ledger.leases.values()];
  const share = Math.min(1, ENDING / Math.max(1, all.length));
  return all.filter(() => draw.unit() < share);
}

const endOf = ({ jobId: job, runId: run, seq }: Lease) => ({
  kind: "end",
  jobId: job,
  runId: run,
  seq,
  unconfirmedHosts: [],
});

function fullOfAgents(hosts: number): ReturnType<typeof emptyLedger> {
  const shape = shapeOf(hosts);
  const ids = shape.clusters.flatMap((cluster) => cluster.hosts.map(({ id }) => id));
  const agent = { epoch: "1", runQueue: "run", orderQueue: "order", address: "bench" };
  const hello = { kind: "agent-registered", hosts: ids, agent, running: [], highestToken: 0 };
  return apply(emptyLedger(shape), { kind: "inbox", entries: [hello], nowMs: 0 }).ledger;
}

function shapeOf(hosts: number): FleetShape {
  const clusters = Array.from({ length: CLUSTERS }, (_, at): ClusterShape => {
    const id = clusterId(`c${String(at)}`);
    return {
      id,
      site: `site-${String(at % 3)}`,
      jurisdiction: "EU",
      fabricGbps: gbps(400),
      isSimulated: false,
      hosts: Array.from({ length: Math.ceil(hosts / CLUSTERS) }, (__, index) => ({
        id: hostId(id, `h${String(index).padStart(3, "0")}`),
        gpuType: "H100",
        gpuCount: GPUS_PER_HOST,
        gpuMemoryGiB: gib(80),
        gpuWatts: watts(700),
        rack: `r${String(Math.floor(index / HOSTS_PER_RACK))}`,
      })),
    };
  });
  const tenants = Array.from({ length: TENANTS }, (_, at) => ({
    id: tenantId(`tenant-${String(at)}`),
    weight: 1 + (at % 3),
    quota: { H100: Math.ceil((hosts * GPUS_PER_HOST) / 4) },
    borrowingLimit: hosts,
  }));
  return { clusters, links: [], tenants };
}

function drawnRequest(draw: Draw, number: number, nowMs: number): GangRequest {
  const gpus = draw.of(SIZES);
  return {
    jobId: jobId(`job-${String(number)}`),
    runId: runId(`run-${String(number)}`),
    seq: 1,
    name: "bench",
    tenant: tenantId(`tenant-${String(draw.below(TENANTS))}`),
    class: draw.of(CLASSES),
    priority: draw.below(3) * 100,
    gang: { gpus, min: gpus, timeoutMs: ms(30_000) },
    constraints: { isSameHost: false, isSameFabric: gpus > GPUS_PER_HOST },
    submittedAtMs: nowMs,
    requestedAtMs: nowMs,
    ...(draw.unit() < 0.5 && { timeLimitMs: ms(60_000 * (1 + draw.below(600))) }),
  };
}
