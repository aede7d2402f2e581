/**
 * @file A made-up fleet as the messages that browsers get: hosts, leases, a queue with reasons, shares and decisions, of any size, and a stream of changes
 * of its leases. Everything comes from one seed.
 */

import { randomFrom, type Random } from "../../lib/random.ts";
import type { JobPage } from "../../page/job-wire.ts";
import type {
  DecisionRow,
  FlowRow,
  GpuMask,
  HostPast,
  HostRow,
  LeaseRow,
  Message,
  ReasonRow,
  RequestRow,
  ReservationRow,
  SharesPast,
  UseRow,
} from "../../page/wire.ts";
import { jobPageOf, samplesOf, spansOf } from "./made-up-answers.ts";
import { ALL_GPUS, TENANTS } from "./made-up-names.ts";

export interface MadeUpFleet {
  readonly snapshot: () => Extract<Message, { kind: "snapshot" }>;
  /** Ends a lease of 1 to 8 GPUs and starts others on what it held, so many times; what browsers are told of it. */
  readonly change: (count: number) => Extract<Message, { kind: "delta" }>;
  readonly jobPage: (job: string) => JobPage;
  readonly hostPast: (host: string) => HostPast;
  readonly shares: () => SharesPast;
  readonly runningJobs: () => readonly string[];
}

const CLUSTERS = [
  ["eu-h100", "frankfurt", "H100"],
  ["us-h200", "ashburn", "H200"],
  ["us-a100", "ashburn", "A100"],
  ["ap-b200", "singapore", "B200"],
] as const;
const CLASSES = ["training", "training", "training", "interactive", "inference"] as const;
const HOSTS_A_RACK = 8;

export function madeUpFleet(options: {
  readonly seed: number;
  readonly hosts: number;
  readonly waiting: number;
  readonly nowMs: number;
}): MadeUpFleet {
  const { seed, waiting, nowMs } = options;
  const random = randomFrom(seed, "made-up fleet");
  const hosts = hostsOf(options.hosts, { random: random.stream("hosts"), nowMs });
  const leases = new Map<string, LeaseRow>();
  let nextLease = 1;
  for (const [host, { condition }] of hosts) {
    if (condition === "agentless" || random.unit() < 0.06) continue;
    fill(host, random.unit() < 0.15 ? 0x3f : ALL_GPUS);
  }
  const gangs = joinGangs();
  const reservations = reservationsOf();
  const requests = requestsOf(waiting, { random: random.stream("queue"), nowMs });
  const order = [...requests.keys()];

  /** Leases on the GPUs of the mask. */
  function fill(host: string, mask: number): readonly string[] {
    const made: string[] = [];
    for (let left = mask; left !== 0;) {
      const size = [8, 8, 4, 2, 1][random.below(5)] ?? 1;
      let gpus = 0;
      for (let gpu = 0, count = 0; gpu < 8 && count < size; gpu += 1)
        if (((left >>> gpu) & 1) === 1) {
          gpus |= 1 << gpu;
          count += 1;
        }
      left &= ~gpus;
      const id = `lease-${String(nextLease)}`;
      leases.set(id, leaseOf([[host, gpus]], nextLease));
      made.push(id);
      nextLease += 1;
    }
    return made;
  }

  function leaseOf(gpus: readonly GpuMask[], number: number): LeaseRow {
    const draw = random.unit();
    const state =
      draw < 0.93 ? "held" : draw < 0.96 ? "granted" : draw < 0.98 ? "vacating" : "evicted";
    return {
      job: `job-${String(number).padStart(5, "0")}`,
      class: CLASSES[random.below(CLASSES.length)] ?? "training",
      tenant: TENANTS[Math.floor(random.unit() ** 1.7 * TENANTS.length)] ?? "vision",
      state,
      gpus,
      sinceMs: nowMs - random.exponential(4 * 3_600_000),
      ...(number % 4 !== 0 && { predictedGbs: 40 + ((number * 37) % 350) }),
      ...(state === "evicted" && { forJob: "wait-00003", lostGpuSeconds: 512 }),
    };
  }

  /** Every fifth lease of a whole host takes the following whole hosts too. */
  function joinGangs(): readonly string[] {
    const whole = [...leases].filter(([, { gpus }]) => gpus[0]?.[1] === ALL_GPUS);
    const joined: string[] = [];
    for (let at = 0; at + 4 < whole.length; at += 5) {
      const parts = whole.slice(at, at + 2 + random.below(3));
      const [first] = parts;
      if (first === undefined) continue;
      const [id, row] = first;
      leases.set(id, { ...row, class: "training", gpus: parts.flatMap(([, { gpus }]) => gpus) });
      for (const [gone] of parts.slice(1)) leases.delete(gone);
      joined.push(row.job);
    }
    return joined;
  }

  function reservationsOf(): ReadonlyMap<string, ReservationRow> {
    const idle = [...hosts.keys()].slice(3, 5).map((host): GpuMask => [host, 0xc0]);
    return new Map(
      waiting === 0 ? [] : [["wait-00001", { gpus: idle, kind: "head", sinceMs: nowMs - 60_000 }]],
    );
  }

  const change: MadeUpFleet["change"] = (count) => {
    const set: Record<string, LeaseRow> = {};
    const gone: string[] = [];
    const small = [...leases].filter(([, { gpus }]) => gpus.length === 1);
    for (let at = 0; at < count; at += 1) {
      const place = random.below(small.length);
      const [id, row] = small[place] ?? ["", undefined];
      const [part] = row?.gpus ?? [];
      if (part === undefined || !leases.delete(id)) continue;
      if (id in set) delete set[id];
      else gone.push(id);
      for (const made of fill(...part)) {
        const lease = leases.get(made);
        if (lease === undefined) continue;
        set[made] = lease;
        small.push([made, lease]);
      }
    }
    return { kind: "delta", changes: { leases: { set, gone } } };
  };

  return {
    snapshot: () => ({
      kind: "snapshot",
      facts: {
        ...{ fleet: "made-up", atMs: nowMs, mayAct: true },
        past: { fromMs: nowMs - 6 * 3_600_000, isMore: false },
      },
      order,
      changes: {
        hosts: { set: Object.fromEntries(hosts) },
        leases: { set: Object.fromEntries(leases) },
        reservations: { set: Object.fromEntries(reservations) },
        requests: { set: Object.fromEntries(requests) },
        reasons: { set: reasonsOf(requests, random.stream("reasons")) },
        flows: { set: flowsOf(leases, requests) },
        decisions: { set: decisionsOf(nowMs) },
        use: { set: useOf(hosts, leases) },
      },
    }),
    change,
    jobPage: (job) => jobPageOf(job, { leases, nowMs }),
    hostPast: (host) => {
      return { host, sinceMs: nowMs - 6 * 3_600_000, spans: spansOf(host, { leases, nowMs }) };
    },
    shares: () => ({ samples: samplesOf(nowMs) }),
    runningJobs: () => [...gangs, ...[...leases.values()].map(({ job }) => job)],
  };
}

function hostsOf(
  count: number,
  { random, nowMs }: { readonly random: Random; readonly nowMs: number },
): ReadonlyMap<string, HostRow> {
  const rows = new Map<string, HostRow>();
  for (let at = 0; at < count; at += 1) {
    const share = Math.floor((at * CLUSTERS.length) / count);
    const [cluster, site, gpuType] = CLUSTERS[share] ?? CLUSTERS[0];
    const first = Math.ceil((share * count) / CLUSTERS.length);
    const draw = random.unit();
    rows.set(`${cluster}/h${String(at - first).padStart(3, "0")}`, {
      ...{ cluster, site, gpuType, gpus: 8, at },
      rack: `r${String(Math.floor((at - first) / HOSTS_A_RACK) + 1).padStart(2, "0")}`,
      ...(draw < 0.01 && { condition: "drained" as const, drainReason: "ECC errors on GPU 3" }),
      ...(draw > 0.993 && { condition: "silent" as const, silentSinceMs: nowMs - 90_000 }),
      ...(draw > 0.988 && draw <= 0.993 && { condition: "agentless" as const }),
    });
  }
  return rows;
}

/** All hosts with an agent tell it; each ninth lease leaves its GPUs idle. */
function useOf(
  hosts: ReadonlyMap<string, HostRow>,
  leases: ReadonlyMap<string, LeaseRow>,
): Record<string, UseRow> {
  const rows: Record<
    string,
    { use: number[]; memory: number[]; watts: number[]; idleMinutes: number[]; tensor: number[] }
  > = {};
  for (const [host, { gpus, condition }] of hosts)
    if (condition !== "agentless")
      rows[host] = {
        use: Array<number>(gpus).fill(0),
        memory: Array<number>(gpus).fill(1),
        watts: Array<number>(gpus).fill(70),
        idleMinutes: Array<number>(gpus).fill(95),
        tensor: Array<number>(gpus).fill(0),
      };
  let at = 0;
  for (const { gpus } of leases.values()) {
    at += 1;
    if (at % 9 === 0) continue;
    for (const [host, mask] of gpus)
      rows[host]?.use.forEach((_, gpu) => {
        const row = rows[host];
        if (row === undefined || ((mask >>> gpu) & 1) === 0) return;
        row.use[gpu] = 10 + ((at * 13 + gpu) % 90);
        row.memory[gpu] = 20 + ((at * 7) % 75);
        row.watts[gpu] = 200 + 10 * ((at * 11) % 50);
        row.tensor[gpu] = (at * 5) % 70;
        row.idleMinutes[gpu] = 0;
      });
  }
  return rows;
}

function requestsOf(
  count: number,
  { random, nowMs }: { readonly random: Random; readonly nowMs: number },
): ReadonlyMap<string, RequestRow> {
  const rows = new Map<string, RequestRow>();
  for (let at = 1; at <= count; at += 1)
    rows.set(`wait-${String(at).padStart(5, "0")}`, {
      name: `train-${String(random.below(400))}`,
      class: CLASSES[random.below(CLASSES.length)] ?? "training",
      tenant: TENANTS[random.below(TENANTS.length)] ?? "vision",
      gpus: 2 ** random.below(8),
      ...(at % 17 === 0 && { slots: 1 + random.below(40) }),
      priority: random.below(3),
      submittedAtMs: nowMs - random.exponential(2 * 3_600_000),
    });
  return rows;
}

function reasonsOf(
  requests: ReadonlyMap<string, RequestRow>,
  random: Random,
): Record<string, ReasonRow> {
  const rows: Record<string, ReasonRow> = {};
  for (const [job, { gpus, tenant }] of requests) {
    const free = random.below(gpus);
    const holders = [`lease-${String(1 + random.below(500))}`];
    rows[job] =
      random.unit() < 0.7
        ? {
            code: "WaitingForGpus",
            message: `${job} needs ${String(gpus)} GPUs; ${String(free)} are free in eu-h100, the most in one cluster.`,
            numbers: { needed: gpus, free },
            holders,
          }
        : {
            code: "WaitingForQuota",
            message: `${job} needs ${String(gpus)} GPUs of ${tenant}'s quota of 1,024; 1,020 are held.`,
            numbers: { needed: gpus, quota: 1_024, held: 1_020 },
            holders,
          };
  }
  return rows;
}

function flowsOf(
  leases: ReadonlyMap<string, LeaseRow>,
  requests: ReadonlyMap<string, RequestRow>,
): Record<string, FlowRow> {
  const rows: Record<string, FlowRow> = {};
  const held = (isOf: (row: LeaseRow) => boolean): number =>
    [...leases.values()].filter(isOf).reduce((sum, { gpus }) => sum + 8 * gpus.length, 0);
  const waits = (isOf: (row: RequestRow) => boolean): number =>
    [...requests.values()].filter(isOf).length;
  for (const name of new Set(CLASSES)) {
    const runningGpus = held((row) => row.class === name);
    rows[name] = {
      ...{
        class: name,
        weight: 1,
        runningGpus,
        dueGpus: runningGpus * 0.97,
        deficitGpuHours: 1.25,
      },
      waiting: waits((row) => row.class === name),
    };
    for (const [at, tenant] of TENANTS.entries()) {
      const isOf = (row: { class: string; tenant: string }): boolean =>
        row.class === name && row.tenant === tenant;
      rows[`${name} ${tenant}`] = {
        ...{
          class: name,
          tenant,
          weight: 1 + (at % 3),
          runningGpus: held(isOf),
          waiting: waits(isOf),
        },
        ...{ dueGpus: runningGpus / TENANTS.length, deficitGpuHours: 12.5 - 3 * at },
      };
    }
  }
  return rows;
}

const decisionsOf = (nowMs: number): Record<string, DecisionRow> =>
  Object.fromEntries(
    Array.from({ length: 30 }, (_, at) => [
      String(at + 1),
      {
        ...{ atMs: nowMs - (30 - at) * 2_000, method: "tawfq", candidates: 412, waiting: 9_998 },
        grants: [`job-0${String(4_000 + at)}: 8 GPUs on eu-h100/h004. the whole host, compact`],
        evictions:
          at % 9 === 0 ? ["job-00090 for wait-00003, 512 GPU-seconds lost. least lost"] : [],
        reservations:
          at % 5 === 0 ? ["wait-00001: 4 GPUs on eu-h100/h003, eu-h100/h004 (head)"] : [],
        refusals: [],
      },
    ]),
  );
