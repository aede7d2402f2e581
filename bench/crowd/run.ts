/** @file Runs the crowd and says what became of it: none lost, none starved, memory bounded. */

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { createLobbyStore } from "../../activities/lobby-store.ts";
import { directoryStore } from "../../activities/store.ts";
import type { TenantId } from "../../domain/values/ids.ts";
import { atMost, barOf, exactly, REPORTED, type Figure } from "../bar.ts";
import type { BenchAnswer, BenchRequest } from "../bench.ts";
import { Crowd } from "./crowd.ts";
import { createJobs, type Jobs } from "./jobs.ts";

const MIB = 1024 * 1024;
const CARRIED_MIB = 1.75;
const SAMPLE_EVERY_MS = 5_000;

export async function runCrowd(request: BenchRequest): Promise<BenchAnswer> {
  const jobs = createJobs({ jobs: request.size("jobs"), tenants: request.size("tenants") });
  const tenants = new Set(
    Array.from({ length: 2 * request.size("tenants") }, (_, job) => jobs.tenantOf(job)),
  );
  const folder = await mkdtemp(path.join(tmpdir(), "orbweaver-crowd-"));
  try {
    const crowd = new Crowd(jobs, {
      gpus: request.size("gpus"),
      places: request.size("places"),
      tenants,
      store: createLobbyStore(directoryStore(folder), () => undefined),
    });
    const played = await play(crowd, jobs, request);
    return answerOf(jobs, crowd, { ...played, places: request.size("places") });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

interface Played {
  readonly emptyMiB: number;
  readonly peakMiB: number;
  readonly mostOutside: number;
  readonly processorSeconds: number;
}

async function play(crowd: Crowd, jobs: Jobs, { say, interrupted }: BenchRequest): Promise<Played> {
  const emptyMiB = heapMiB();
  const begun = process.cpuUsage();
  let [peakMiB, mostOutside, sampleAtMs] = [0, 0, 0];
  for (let isGoing = true; isGoing && crowd.left > 0;) {
    isGoing = await crowd.step();
    if (Date.now() < sampleAtMs) continue;
    const heap = heapMiB();
    peakMiB = Math.max(peakMiB, heap);
    mostOutside = Math.max(mostOutside, crowd.outside());
    const of = `${String(crowd.startCount)} of ${String(jobs.count)} jobs started`;
    say(`${of}, ${String(crowd.outside())} outside, heap ${heap.toFixed(0)} MiB`);
    interrupted.throwIfAborted();
    sampleAtMs = Date.now() + SAMPLE_EVERY_MS;
  }
  const { user, system } = process.cpuUsage(begun);
  return { emptyMiB, peakMiB, mostOutside, processorSeconds: (user + system) / 1e6 };
}

function answerOf(
  jobs: Jobs,
  crowd: Crowd,
  played: Played & { readonly places: number },
): BenchAnswer {
  const lobby = crowd.lobbyBytes();
  const most = (value: number, figure: Omit<Figure, "target">) =>
    barOf({ ...figure, target: atMost(value) });
  return {
    bars: [
      barOf({ id: "jobs lost", unit: "", target: exactly(0), got: crowd.left }),
      barOf({ id: "jobs started twice", unit: "", target: exactly(0), got: twice(jobs) }),
      most(1.25, {
        id: "a small tenant's last start ÷ its turn",
        unit: "×",
        got: slowestTenant(jobs, crowd),
      }),
      most(2 * played.places, {
        id: "overtaken in its tenant and class",
        unit: "jobs",
        got: mostOvertaken(jobs, crowd),
      }),
      most(CARRIED_MIB, { id: "carried by a lobby", unit: "MiB", got: lobby / MIB }),
      most(CARRIED_MIB, { id: "carried by the fleet", unit: "MiB", got: crowd.fleetBytes / MIB }),
      most(256, {
        id: "heap beyond the start, at most",
        unit: "MiB",
        got: played.peakMiB - played.emptyMiB,
      }),
      barOf({ id: "most outside", unit: "jobs", target: REPORTED, got: played.mostOutside }),
      barOf({ id: "processor", unit: "s", target: REPORTED, got: played.processorSeconds }),
    ],
  };
}

const twice = ({ starts }: Jobs): number =>
  starts.reduce((sum, count) => sum + (count > 1 ? 1 : 0), 0);

/**
 * A tenant with n jobs among T tenants of equal weight has started its last when T · n jobs have started at most, for all others have their
 * turn as often. The largest ratio over the tenants that end before half of all jobs have started is the answer.
 */
function slowestTenant(jobs: Jobs, { started, startCount }: Crowd): number {
  const last = new Map<TenantId, number>();
  const count = new Map<TenantId, number>();
  for (let at = 0; at < startCount; at += 1) {
    const tenant = jobs.tenantOf(started[at] ?? 0);
    last.set(tenant, at + 1);
    count.set(tenant, (count.get(tenant) ?? 0) + 1);
  }
  const largest = Math.max(...count.values());
  return [...count]
    .filter(([, each]) => each < largest)
    .reduce(
      (most, [tenant, each]) => Math.max(most, (last.get(tenant) ?? 0) / (each * count.size)),
      0,
    );
}

/** How many places later than by submission a job of the same tenant and class has started, at most. */
function mostOvertaken(jobs: Jobs, { started, startCount }: Crowd): number {
  const flows = new Map<string, number[]>();
  for (let at = 0; at < startCount; at += 1) {
    const job = started[at] ?? 0;
    const key = `${jobs.tenantOf(job)} ${jobs.classOf(job)}`;
    const flow = flows.get(key) ?? [];
    flows.set(key, flow);
    flow.push(job);
  }
  let most = 0;
  for (const flow of flows.values()) {
    const turns = [...flow].sort((a, b) => a - b);
    const turnOf = new Map(turns.map((job, turn) => [job, turn]));
    flow.forEach((job, at) => (most = Math.max(most, at - (turnOf.get(job) ?? 0))));
  }
  return most;
}

setFlagsFromString("--expose-gc");
const collect: unknown = runInNewContext("gc");

function heapMiB(): number {
  if (typeof collect === "function") collect();
  return process.memoryUsage().heapUsed / MIB;
}
