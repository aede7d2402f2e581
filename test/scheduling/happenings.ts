/** @file Random histories of a fleet: what happens to a ledger, worked out from the ledger that it meets, so that it matters. */
import fc from "fast-check";
import type { FleetShape } from "../../domain/fleet/fleet.ts";
import { JOB_CLASSES } from "../../domain/job/job.ts";
import type { QueuePart } from "../../domain/lease/queue-part.ts";
import { leaseId, tenantId, token } from "../../domain/values/ids.ts";
import type { HostGpus, Lease } from "../../domain/lease/lease.ts";
import type { PlanItem } from "../../domain/lease/plan.ts";
import { decide, decideBaseline } from "../../scheduling/cycle/decide.ts";
import type { Ledger, LedgerEvent } from "../../scheduling/ledger/ledger.ts";
import { entries, requests, TENANTS } from "./arbitraries.ts";
import { host, hostNames, planOf } from "./builders.ts";

/** What happens next, given the ledger and the time. */
export interface Happening {
  readonly name: string;
  readonly eventOf: (ledger: Ledger, nowMs: number) => LedgerEvent;
}

type EventOf = Happening["eventOf"];

const queueParts = fc.oneof(
  fc.constant<QueuePart>({ kind: "fleet" }),
  fc.constantFrom(...JOB_CLASSES).map((each): QueuePart => ({ kind: "class", class: each })),
  fc
    .constantFrom(...TENANTS)
    .map((each): QueuePart => ({ kind: "tenant", tenant: tenantId(each) })),
);

/** Everything but changes of the fleet's description. */
export function happenings(shape: FleetShape): fc.Arbitrary<Happening> {
  const names = [...hostNames(shape), "c9/h9"];
  const hosts = fc.subarray(names, { minLength: 1 }).map((some) => some.map(host));
  const parts = fc
    .tuple(hosts, fc.integer({ min: 1, max: 7 }))
    .map(([some, mask]) => some.map((each): HostGpus => ({ host: each, mask })));
  const kinds: readonly (readonly [number, string, fc.Arbitrary<EventOf>])[] = [
    [5, "inbox", fc.array(entries(shape), { minLength: 1, maxLength: 4 }).map(inboxOf)],
    [4, "decided plan", fc.constantFrom(decide, decideBaseline).map(planEvent)],
    [
      3,
      "hostile plan",
      fc.array(hostileItems(shape), { minLength: 1, maxLength: 4 }).map(hostilePlan),
    ],
    [
      2,
      "words about leases",
      fc.array(leaseWords(shape), { minLength: 1, maxLength: 3 }).map(wordsOf),
    ],
    [
      2,
      "delivered",
      fc.array(fc.tuple(fc.nat(20), fc.boolean()), { maxLength: 5 }).map(deliveredOf),
    ],
    [
      1,
      "drain",
      hosts.map((some) => (_, nowMs) => ({ kind: "drain", hosts: some, reason: "test", nowMs })),
    ],
    [
      1,
      "estimated",
      fc.array(fc.tuple(fc.nat(9), fc.nat(50)), { minLength: 1, maxLength: 4 }).map(foreseenOf),
    ],
    [
      1,
      "queue held",
      fc
        .record({ queue: queueParts, isDraining: fc.boolean() })
        .map(({ queue, isDraining }): EventOf => (_, nowMs) => ({
          kind: "queue-held",
          hold: { queue, by: "ada", atMs: nowMs, ...(isDraining && { isDraining }) },
          nowMs,
        })),
    ],
    [
      2,
      "queue released",
      queueParts.map((queue): EventOf => (_, nowMs) => ({ kind: "queue-released", queue, nowMs })),
    ],
    [
      1,
      "GPUs drained",
      fc
        .record({ gpus: parts, reason: fc.constantFrom("test", "heat") })
        .map(({ gpus, reason }) => (_, nowMs) => ({ kind: "drain-gpus", gpus, reason, nowMs })),
    ],
    [
      2,
      "GPUs undrained",
      parts.map((gpus) => (_, nowMs) => ({ kind: "undrain-gpus", gpus, nowMs })),
    ],
    [2, "undrain", hosts.map((some) => (_, nowMs) => ({ kind: "undrain", hosts: some, nowMs }))],
  ];
  return fc.oneof(
    ...kinds.map(([weight, name, events]) => ({
      weight,
      arbitrary: events.map((eventOf) => ({ name, eventOf })),
    })),
  );
}

const inboxOf =
  (batch: readonly unknown[]): EventOf =>
  (_ledger, nowMs) => ({ kind: "inbox", entries: batch, nowMs });

const planEvent =
  (answer: typeof decide): EventOf =>
  (ledger, nowMs) => ({ kind: "plan", plan: answer(ledger, nowMs), nowMs });

type MakeItem = (ledger: Ledger, nowMs: number) => readonly PlanItem[];

const hostilePlan =
  (makers: readonly MakeItem[]): EventOf =>
  (ledger, nowMs) => ({
    kind: "plan",
    plan: planOf(makers.flatMap((make) => make(ledger, nowMs))),
    nowMs,
  });

/** GPUs that are wrong, leased, too many or just right, for requests that wait or never did; and decided items, bent. */
function hostileItems(shape: FleetShape): fc.Arbitrary<MakeItem> {
  const names = hostNames(shape);
  const part: fc.Arbitrary<HostGpus> = fc.record({
    host: fc
      .oneof({ weight: 12, arbitrary: fc.constantFrom(...names) }, fc.constant("c9/h9"))
      .map(host),
    mask: fc.oneof(
      { weight: 9, arbitrary: fc.integer({ min: 1, max: 7 }) },
      fc.constantFrom(0, -1, 0.5, Number.NaN, 2 ** 31),
    ),
  });
  const keyAt = (ledger: Ledger, at: number): PlanItem["request"] | undefined => {
    const waiting = [...ledger.requests.values()][at % Math.max(1, ledger.requests.size)];
    return waiting && { jobId: waiting.jobId, runId: waiting.runId, seq: waiting.seq };
  };
  const item = (
    request: PlanItem["request"],
    gpus: readonly HostGpus[],
    slots?: number,
  ): PlanItem => ({
    kind: "grant",
    request,
    gpus,
    ...(slots !== undefined && { slots }),
    reason: "hostile",
  });
  const drawn = fc
    .record({
      at: fc.nat(9),
      gpus: fc.array(part, { minLength: 1, maxLength: 2 }),
      slots: fc.constantFrom(undefined, undefined, 1, 2, 3, 0, 0.5, -1),
    })
    .map(({ at, gpus, slots }): MakeItem => (ledger) => {
      const key = keyAt(ledger, at);
      return key === undefined ? [] : [item(key, gpus, slots)];
    });
  const stale = fc
    .record({ of: requests, gpus: fc.array(part, { maxLength: 3 }) })
    .map(({ of: { jobId, runId, seq }, gpus }): MakeItem => () => [
      item({ jobId, runId, seq }, gpus),
    ]);
  const bent = fc
    .record({ at: fc.nat(9), more: fc.option(part, { nil: undefined }), isDouble: fc.boolean() })
    .map(({ at, more, isDouble }): MakeItem => (ledger, nowMs) => {
      const { items } = decide(ledger, nowMs);
      const decided = items[at % Math.max(1, items.length)];
      if (decided === undefined) return [];
      const changed = {
        ...decided,
        gpus: more === undefined ? decided.gpus.slice(1) : [...decided.gpus, more],
      };
      return isDouble ? [decided, changed] : [changed, decided];
    });
  return fc.oneof({ weight: 4, arbitrary: drawn }, { weight: 2, arbitrary: bent }, stale);
}

type MakeWord = (leases: readonly Lease[]) => readonly unknown[];

/** Ends and confirmations of leases that there are. */
function leaseWords(shape: FleetShape): fc.Arbitrary<MakeWord> {
  return fc
    .record({
      at: fc.nat(9),
      isEnd: fc.boolean(),
      isPart: fc.boolean(),
      keepMs: fc.option(fc.nat(200), { nil: undefined }),
      some: fc.subarray([...hostNames(shape)]).map((names) => names.map(host)),
    })
    .map(({ at, isEnd, isPart, keepMs, some }) => (leases) => {
      const lease = leases[at % Math.max(1, leases.length)];
      if (lease === undefined) return [];
      const { id, jobId, runId, seq } = lease;
      return isEnd
        ? [
            {
              kind: "end",
              jobId,
              runId,
              seq,
              unconfirmedHosts: some,
              ...(isPart && { lease: id }),
              ...(keepMs !== undefined && { returns: true, keepMs }),
            },
          ]
        : [{ kind: "vacated", lease: id, hosts: some }];
    });
}

const wordsOf =
  (makers: readonly MakeWord[]): EventOf =>
  (ledger, nowMs) => ({
    kind: "inbox",
    entries: makers.flatMap((make) => make([...ledger.leases.values()])),
    nowMs,
  });

/** Estimates of what waits, and of what was granted since they were asked for or before. */
const foreseenOf =
  (picks: readonly (readonly [number, number])[]): EventOf =>
  (ledger, nowMs) => {
    const asked = [...ledger.requests.values(), ...ledger.leases.values()];
    const estimates = picks.flatMap(([at, waitMs]) => {
      const { jobId, runId, seq } = asked[at % Math.max(1, asked.length)] ?? {};
      if (jobId === undefined || runId === undefined || seq === undefined) return [];
      const medianMs = nowMs + waitMs;
      return [{ request: { jobId, runId, seq }, ...(at > 0 && { fromMs: nowMs, medianMs }) }];
    });
    return { kind: "estimated", estimates, askedAtMs: Math.max(0, nowMs - 10), nowMs };
  };

const deliveredOf =
  (picks: readonly (readonly [number, boolean])[]): EventOf =>
  (ledger, nowMs) => {
    const ids = [...ledger.leases.keys(), leaseId(token(999))];
    const named = picks.map(([at, isAccepted]) => ({
      id: ids[at % ids.length] ?? leaseId(token(0)),
      isAccepted,
    }));
    return {
      kind: "delivered",
      accepted: named.flatMap(({ id, isAccepted }) => (isAccepted ? [id] : [])),
      gone: named.flatMap(({ id, isAccepted }) => (isAccepted ? [] : [id])),
      nowMs,
    };
  };
