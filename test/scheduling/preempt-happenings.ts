/** @file What preemption adds to the histories of a fleet: orders of all kinds, sound and hostile, and what agents and jobs answer. */
import fc from "fast-check";
import type { FleetShape } from "../../domain/fleet/fleet.ts";
import { jobId, leaseId, token } from "../../domain/values/ids.ts";
import type { HostGpus, Reservation } from "../../domain/lease/lease.ts";
import type { EvictItem, ReserveItem } from "../../domain/lease/plan.ts";
import { ms } from "../../domain/values/units.ts";
import { decide } from "../../scheduling/cycle/decide.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import { JOBS, requests } from "./arbitraries.ts";
import { host, hostNames, planOf } from "./builders.ts";
import { happenings, type Happening } from "./happenings.ts";

type EventOf = Happening["eventOf"];

/** With all that happens anyway. */
export function preemptHappenings(shape: FleetShape): fc.Arbitrary<Happening> {
  const kinds: readonly (readonly [number, string, fc.Arbitrary<EventOf>])[] = [
    [4, "requests that yield", fc.array(yielding, { minLength: 1, maxLength: 3 }).map(inboxOf)],
    [6, "orders", orders(shape)],
    [3, "sent", fc.tuple(fc.nat(9), fc.boolean()).map(sentOf)],
    [2, "checkpointed", fc.tuple(fc.nat(9), fc.nat(400)).map(checkpointOf)],
    [2, "stopped", fc.nat(9).map(stoppedOf)],
    [1, "clock", fc.constantFrom(0, 70_000, 200_000).map(clockOf)],
  ];
  return fc.oneof(
    { weight: 18, arbitrary: happenings(shape) },
    ...kinds.map(([weight, name, events]) => ({
      weight,
      arbitrary: events.map((eventOf) => ({ name, eventOf })),
    })),
  );
}

const yielding = fc
  .record({
    of: requests,
    mayShrink: fc.boolean(),
    mayGrow: fc.boolean(),
    graceMs: fc.constantFrom(undefined, 5),
    intervalMs: fc.constantFrom(undefined, 50),
  })
  .map(({ of, mayShrink, mayGrow, graceMs, intervalMs }) => ({
    kind: "request",
    request: {
      ...of,
      gang: { ...of.gang, ...(mayGrow && { mayGrow: true }) },
      preemption: { isPreemptible: true, mayShrink, minRuntimeMs: ms(0) },
      ...(graceMs !== undefined && {
        checkpoint: { graceMs, ...(intervalMs !== undefined && { intervalMs }) },
      }),
    },
  }));

const inboxOf =
  (entries: readonly unknown[]): EventOf =>
  (_ledger, nowMs) => ({ kind: "inbox", entries, nowMs });

/** Reservations and evictions of what there is, most of them with one flaw or another; beside what `decide` would do. */
function orders(shape: FleetShape): fc.Arbitrary<EventOf> {
  const part: fc.Arbitrary<HostGpus> = fc.record({
    host: fc.constantFrom(...hostNames(shape), "c9/h9").map(host),
    mask: fc.oneof(
      { weight: 9, arbitrary: fc.integer({ min: 1, max: 7 }) },
      fc.constantFrom(0, -1, 0.5),
    ),
  });
  const drawn = fc.record({
    at: fc.nat(9),
    job: fc.nat(9),
    kind: fc.constantFrom<Reservation["kind"]>(
      "preemption",
      "preemption",
      "backfill",
      "keep",
      "headroom",
    ),
    isOfLease: fc.constantFrom(true, true, true, false),
    isOwn: fc.constantFrom(false, false, true),
    parts: fc.array(part, { maxLength: 2 }),
    keeps: fc.constantFrom(undefined, undefined, 1, 2, 3),
    usableUntilMs: fc.constantFrom(undefined, undefined, 200),
    lostGpuSeconds: fc.constantFrom(0, 3, 12.5, 40_000, -1),
  });
  return fc
    .record({ all: fc.array(drawn, { minLength: 1, maxLength: 3 }), isWithGrants: fc.boolean() })
    .map(({ all, isWithGrants }): EventOf => (ledger, nowMs) => {
      const reserve: ReserveItem[] = [];
      const evict: EvictItem[] = [];
      for (const { at, job, kind, isOfLease, isOwn, parts, keeps, ...rest } of all) {
        const leases = [...ledger.leases.values()];
        const lease = leases[at % Math.max(1, leases.length)];
        const waiting = [...ledger.requests.keys()];
        const other =
          kind === "headroom"
            ? leases[job % Math.max(1, leases.length)]?.jobId
            : waiting[job % Math.max(1, waiting.length)];
        const forJob = (isOwn ? lease?.jobId : other) ?? jobId(JOBS[job % JOBS.length] ?? "a");
        const { usableUntilMs, lostGpuSeconds } = rest;
        const gpus = isOfLease && lease !== undefined ? lease.gpus : parts;
        reserve.push({
          jobId: forJob,
          gpus: isOwn ? [...gpus, ...parts] : gpus,
          kind: isOwn ? "keep" : kind,
          ...(usableUntilMs !== undefined && { usableUntilMs }),
        });
        if (lease === undefined) continue;
        const [first] = lease.gpus;
        const keep =
          keeps === undefined || first === undefined ? undefined : [{ ...first, mask: keeps }];
        evict.push({
          kind: "evict",
          lease: lease.id,
          forJob,
          ...(keep !== undefined && { keep }),
          lostGpuSeconds,
          reason: "hostile",
        });
      }
      const grants = isWithGrants ? decide(ledger, nowMs).items : [];
      return { kind: "plan", plan: { ...planOf(grants), reserve, evict }, nowMs };
    });
}

const evicting = ({ leases }: Ledger) =>
  [...leases.values()].filter(({ eviction }) => eviction !== undefined);

const sentOf =
  ([at, isGone]: readonly [number, boolean]): EventOf =>
  (ledger, nowMs) => {
    const known = evicting(ledger).map(({ id }) => id);
    const ids = [...known, ...known, leaseId(token(999))];
    const id = ids[at % ids.length] ?? leaseId(token(999));
    return isGone && at % 3 === 0
      ? { kind: "evictions-sent", sent: [], gone: [id], nowMs }
      : { kind: "evictions-sent", sent: [id], gone: [], nowMs };
  };

const checkpointOf =
  ([at, atMs]: readonly [number, number]): EventOf =>
  ({ leases }, nowMs) => {
    const ids = [...leases.keys()];
    const lease = ids[at % Math.max(1, ids.length)] ?? "lease-7";
    return { kind: "inbox", entries: [{ kind: "checkpointed", marks: [{ lease, atMs }] }], nowMs };
  };

/** The job follows its order, and returns to the queue. */
const stoppedOf =
  (at: number): EventOf =>
  (ledger, nowMs) => {
    const all = evicting(ledger);
    const lease = all[at % Math.max(1, all.length)];
    if (lease === undefined) return { kind: "inbox", entries: [], nowMs };
    const { jobId: job, runId, seq, tenant, class: jobClass, terms } = lease;
    const key = { jobId: job, runId };
    return {
      kind: "inbox",
      entries: [
        { kind: "end", ...key, seq, unconfirmedHosts: [] },
        {
          kind: "request",
          request: {
            ...key,
            seq: seq + 1,
            name: job,
            tenant,
            class: jobClass,
            ...terms,
            requestedAtMs: nowMs,
          },
        },
      ],
      nowMs,
    };
  };

const clockOf =
  (laterMs: number): EventOf =>
  (_ledger, nowMs) => ({ kind: "clock", nowMs: nowMs + laterMs });
