/** @file Refills of the inference headroom: a job that runs on it causes evictions for the next one, and for no more than it holds. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { DEFAULT_POLICY, type FleetShape } from "../../../domain/fleet/fleet.ts";
import { jobId, leaseId, token } from "../../../domain/values/ids.ts";
import { gpuCountOf, type HostGpus, type Lease } from "../../../domain/lease/lease.ts";
import type { EvictItem, Plan, ReserveItem } from "../../../domain/lease/plan.ts";
import { ms } from "../../../domain/values/units.ts";
import { apply, checkLedger } from "../../../scheduling/ledger/apply/apply.ts";
import { REFILL_AFTER_MS } from "../../../scheduling/preemption/headroom-refill.ts";
import { decide } from "../../../scheduling/cycle/decide.ts";
import { packLedger, unpackLedger } from "../../../scheduling/ledger/codec.ts";
import type { Ledger } from "../../../scheduling/ledger/ledger.ts";
import { openSession } from "../../../scheduling/cycle/live-scheduler.ts";
import {
  ask,
  end,
  fleetShape,
  gpus,
  inbox,
  leased,
  planOf,
  readyLedger,
  type RequestSpec,
} from "../builders.ts";
import { yielded } from "../preempting.ts";
import { caseCount } from "../../support/case-count.ts";

const SHAPE: FleetShape = {
  ...fleetShape([{ hosts: [{}, {}, {}, {}] }]),
  policy: { ...DEFAULT_POLICY, maxReserveShare: 0.5 },
};
const NOW_MS = 100_000;
const ANY_TIME = { isPreemptible: true, mayShrink: false, minRuntimeMs: ms(0) };
const TRAINING: RequestSpec = { preemption: ANY_TIME, checkpoint: { graceMs: ms(2_000) } };

const delivered = (ledger: Ledger, nowMs: number): Ledger => {
  const accepted = [...ledger.leases.values()].flatMap(({ id, state }) =>
    state === "granted" ? [id] : [],
  );
  return apply(ledger, { kind: "delivered", accepted, gone: [], nowMs }).ledger;
};

/** Demand rose by eight GPUs a while ago; now a job runs on the eight that were kept, training has all others, and more of it waits. */
function drained(): Ledger {
  const early = inbox(readyLedger(SHAPE), [ask({ job: "e", class: "inference", gpus: 8 })], 70_000);
  let ledger = inbox(early.ledger, [end("e")], 70_500).ledger;
  ledger = leased(
    ledger,
    { job: "now", class: "inference", gpus: 8, tenant: "shop" },
    gpus(["c0/h0", 0xff]),
  );
  for (const [at, name] of ["h1", "h2", "h3"].entries())
    ledger = leased(
      ledger,
      { job: `train${String(at)}`, gpus: 8, ...TRAINING },
      gpus([`c0/${name}`, 0xff]),
    );
  ledger = delivered(ledger, 0);
  return inbox(ledger, [ask({ job: "more", gpus: 8 })], NOW_MS).ledger;
}

const refills = ({ reservations }: Ledger): readonly string[] =>
  [...(reservations?.values() ?? [])].flatMap(({ kind, jobId: job }) =>
    kind === "headroom" ? [job] : [],
  );
const leaseOf = (ledger: Ledger, job: string): Lease | undefined =>
  [...ledger.leases.values()].find((lease) => lease.jobId === jobId(job));

describe("a job that runs on the reserve", () => {
  test("has one other stop for the next, once, and what that frees is kept", () => {
    const before = drained();
    const plan = decide(before, NOW_MS);
    expect(plan.evict?.map(({ forJob, lease }) => [forJob, lease])).toEqual([
      ["now", expect.stringMatching(/^lease-/)],
    ]);
    const ordered = apply(before, { kind: "plan", plan, nowMs: NOW_MS });
    expect(ordered.refusals).toEqual([]);
    expect(checkLedger(ordered.ledger)).toEqual([]);
    expect(refills(ordered.ledger)).toEqual(["now"]);
    expect(leaseOf(ordered.ledger, "now")).toMatchObject({
      headroomGpus: 8,
      causedLossGpuSeconds: 16,
    });
    expect(decide(ordered.ledger, NOW_MS + 5).evict).toBeUndefined();

    const after = yielded(ordered.ledger, NOW_MS + 2_000);
    expect(refills(after)).toEqual([]);
    expect(checkLedger(after)).toEqual([]);
    // Eight are free: neither `more` nor the stopped job gets them, but the next inference job does at once, and nobody stops again for `now`.
    const still = decide(after, NOW_MS + 2_005);
    expect([still.items, still.evict]).toEqual([[], undefined]);
    const next = inbox(
      after,
      [ask({ job: "next", class: "inference", gpus: 8 })],
      NOW_MS + 2_010,
    ).ledger;
    const grants = decide(next, NOW_MS + 2_015).items;
    expect(grants.map(({ request, gpus: got }) => [request.jobId, gpuCountOf(got)])).toEqual([
      ["next", 8],
    ]);
  });

  test("has others stop while some are stopping already, as far as the headroom is still short", () => {
    const shape = { ...SHAPE, ...fleetShape([{ hosts: [{}, {}, {}, {}, {}, {}] }]) };
    let ledger = inbox(
      readyLedger(shape),
      [ask({ job: "e", class: "inference", gpus: 16 })],
      70_000,
    ).ledger;
    ledger = inbox(ledger, [end("e")], 70_500).ledger;
    for (const [at, job] of ["now0", "now1"].entries())
      ledger = leased(
        ledger,
        { job, class: "inference", gpus: 8, tenant: "shop" },
        gpus([`c0/h${String(at)}`, 0xff]),
      );
    for (const at of [2, 3, 4, 5])
      ledger = leased(
        ledger,
        { job: `train${String(at)}`, gpus: 8, ...TRAINING },
        gpus([`c0/h${String(at)}`, 0xff]),
      );
    ledger = inbox(delivered(ledger, 0), [ask({ job: "more", gpus: 8 })], NOW_MS).ledger;
    const plan = decide(ledger, NOW_MS);
    expect(plan.evict?.map(({ forJob }) => forJob)).toEqual(["now0", "now1"]);
    const ordered = apply(ledger, { kind: "plan", plan, nowMs: NOW_MS });
    expect(ordered.refusals).toEqual([]);
    expect(checkLedger(ordered.ledger)).toEqual([]);
    expect(decide(ordered.ledger, NOW_MS + 5).evict).toBeUndefined();
  });

  test("waits until it has run for a while: who ends sooner gives its GPUs back sooner than anybody could", () => {
    const before = drained();
    const young = [...before.leases.values()].map((lease) =>
      lease.class === "inference" ? { ...lease, grantedAtMs: NOW_MS - 10 } : lease,
    );
    const ledger = { ...before, leases: new Map(young.map((lease) => [lease.id, lease])) };
    const { evict, wakeAtMs } = decide(ledger, NOW_MS);
    expect([evict, wakeAtMs]).toEqual([undefined, NOW_MS - 10 + REFILL_AFTER_MS]);
  });

  test("takes back the order when it ends before that was sent, and the loss with it", () => {
    const before = drained();
    const plan = decide(before, NOW_MS);
    const ordered = apply(before, { kind: "plan", plan, nowMs: NOW_MS }).ledger;
    const now = leaseOf(ordered, "now");
    const { ledger } = inbox(ordered, [end("now", { run: now?.runId ?? "" })], NOW_MS + 1);
    expect(checkLedger(ledger)).toEqual([]);
    expect(refills(ledger)).toEqual([]);
    expect([...ledger.leases.values()].some(({ eviction }) => eviction !== undefined)).toBe(false);
    expect(ledger.evictions ?? []).toEqual([]);
  });

  test("is the same after packing", () => {
    const before = drained();
    const plan = decide(before, NOW_MS);
    const { ledger } = apply(before, { kind: "plan", plan, nowMs: NOW_MS });
    const back = unpackLedger(JSON.parse(JSON.stringify(packLedger(ledger))) as never);
    expect(back.leases).toEqual(ledger.leases);
    expect(back.reservations).toEqual(ledger.reservations);
  });
});

describe("the ledger refuses a refill", () => {
  const reserve = (job: string, parts: readonly HostGpus[]): ReserveItem => ({
    jobId: jobId(job),
    gpus: parts,
    kind: "headroom",
  });
  const evict = (number: number, forJob: string): EvictItem => ({
    kind: "evict",
    lease: leaseId(token(number)),
    forJob: jobId(forJob),
    lostGpuSeconds: 16,
    reason: "test",
  });
  const H1 = gpus(["c0/h1", 0xff]);
  const cases: readonly {
    readonly name: string;
    readonly plan: Partial<Plan>;
    readonly want: readonly string[];
  }[] = [
    {
      name: "in the name of training",
      plan: { reserve: [reserve("train2", H1)], evict: [evict(2, "train2")] },
      want: ["RequestGone", "NotEvictable"],
    },
    {
      name: "in the name of a waiting job",
      plan: { reserve: [reserve("more", H1)], evict: [evict(2, "more")] },
      want: ["RequestGone", "NotEvictable"],
    },
    {
      name: "for more GPUs than its job holds",
      plan: {
        reserve: [reserve("now", gpus(["c0/h1", 0xff], ["c0/h2", 0xff]))],
        evict: [evict(2, "now"), evict(3, "now")],
      },
      want: ["NotEvictable"],
    },
    {
      name: "whose GPUs no eviction would free",
      plan: { reserve: [reserve("now", H1)], evict: [evict(3, "now")] },
      want: ["NotEvictable"],
    },
  ];
  test.each(cases)("$name", ({ plan, want }) => {
    const { ledger, refusals } = apply(drained(), {
      kind: "plan",
      plan: { ...planOf([]), ...plan },
      nowMs: NOW_MS,
    });
    expect(refusals.map(({ code }) => code)).toEqual(want);
    expect(checkLedger(ledger)).toEqual([]);
  });
});

describe("over random arrivals", () => {
  type Step = readonly [pauseMs: number, kind: "inference" | "training" | "end", size: number];
  const steps: fc.Arbitrary<readonly Step[]> = fc.array(
    fc.tuple(
      fc.constantFrom(5, 300, 1_500, 4_000),
      fc.constantFrom("inference", "inference", "training", "training", "end"),
      fc.constantFrom(1, 2, 4, 8, 12),
    ),
    { minLength: 10, maxLength: 30 },
  );

  test("no job causes more evictions than it holds GPUs, plans are sound, and without arrivals it comes to rest", () => {
    fc.assert(
      fc.property(steps, (all) => {
        const session = openSession(readyLedger(SHAPE));
        const refilled = new Map<string, number>();
        let nowMs = 0;
        let evictions = 0;
        const cycle = (): void => {
          const plan = session.decide(nowMs);
          for (const { forJob, lease } of plan.evict ?? []) {
            const own = leaseOf(session.ledger, forJob);
            if (own === undefined) continue;
            // The job has its place before anybody gives up one in its name.
            expect(own.class).toBe("inference");
            const parts = (plan.reserve ?? []).find((item) => item.jobId === forJob)?.gpus ?? [];
            const victim = session.ledger.leases.get(lease);
            const taken = parts.filter(({ host }) =>
              victim?.gpus.some((part) => part.host === host),
            );
            refilled.set(own.id, (refilled.get(own.id) ?? 0) + Math.min(1, taken.length));
            evictions += 1;
            expect(refilled.get(own.id)).toBeLessThanOrEqual(gpuCountOf(own.gpus));
          }
          expect(session.apply({ kind: "plan", plan, nowMs }).refusals).toEqual([]);
          const accepted = [...session.ledger.leases.values()].flatMap(({ id, state }) =>
            state === "granted" ? [id] : [],
          );
          session.apply({ kind: "delivered", accepted, gone: [], nowMs });
          expect(checkLedger(session.ledger)).toEqual([]);
        };
        const stop = (): void => {
          for (const { id, jobId: job, runId, seq, eviction, terms, ...lease } of [
            ...session.ledger.leases.values(),
          ]) {
            if (eviction === undefined || lease.state === "vacating") continue;
            session.apply({ kind: "evictions-sent", sent: [id], gone: [], nowMs });
            const again = { ...ask({ job, ...TRAINING }), kind: "request" };
            const request = { jobId: job, runId, seq: seq + 1, name: job, ...lease, ...terms };
            session.apply({
              kind: "inbox",
              entries: [
                end(job, { run: runId, seq }),
                { ...again, request: { ...request, requestedAtMs: nowMs } },
              ],
              nowMs,
            });
          }
        };
        all.forEach(([pauseMs, kind, size], at) => {
          nowMs += pauseMs;
          const running = [...session.ledger.leases.values()];
          const ended = running[at % Math.max(1, running.length)];
          const spec = { job: `j${String(at)}`, submittedAtMs: nowMs, requestedAtMs: nowMs };
          const entries =
            kind === "end"
              ? ended === undefined
                ? []
                : [end(ended.jobId, { run: ended.runId, seq: ended.seq })]
              : kind === "inference"
                ? [ask({ ...spec, class: "inference", gpus: Math.min(8, size) })]
                : [ask({ ...spec, gpus: size, ...TRAINING })];
          session.apply({ kind: "inbox", entries, nowMs });
          cycle();
          if (at % 3 === 0) stop();
        });
        const used = [...session.ledger.leases.values()].reduce(
          (sum, { class: jobClass, gpus: held }) =>
            sum + (jobClass === "inference" ? gpuCountOf(held) : 0),
          0,
        );
        const waiting = [...session.ledger.requests.values()].filter(
          ({ class: jobClass }) => jobClass === "inference",
        ).length;
        evictions = 0;
        for (let round = 0; round < 8; round += 1) {
          nowMs += 5_000;
          cycle();
          stop();
        }
        expect(evictions).toBeLessThanOrEqual(used + 8 * waiting);
        const before = evictions;
        nowMs += 5_000;
        cycle();
        expect(evictions).toBe(before);
      }),
      { numRuns: caseCount(15) },
    );
  });
});
