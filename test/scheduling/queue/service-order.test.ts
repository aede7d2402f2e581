/** @file The order of service: levels, who gives way to whom, and that evictions by it come to rest. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { jobId, leaseId, token } from "../../../domain/values/ids.ts";
import type { Lease } from "../../../domain/lease/lease.ts";
import { ms } from "../../../domain/values/units.ts";
import { decide } from "../../../scheduling/cycle/decide.ts";
import { apply, checkLedger } from "../../../scheduling/ledger/apply/apply.ts";
import type { Ledger } from "../../../scheduling/ledger/ledger.ts";
import {
  GROWTH,
  leastServed,
  leastServedStretched,
  levelOf,
  MOST_LEVELS,
  QUANTUM_GPU_MS,
  shortestRest,
  stretchOf,
} from "../../../scheduling/queue/service-order.ts";
import { delayMs } from "../../../scheduling/queue/tawfq.ts";
import { end, fleetShape, gangRequest, gpus, inbox, leased, readyLedger } from "../builders.ts";

const SHAPE = fleetShape([{ hosts: [{}, {}] }]);
const H0 = gpus(["c0/h0", 0xff]);
const H1 = gpus(["c0/h1", 0xff]);
const CHECKPOINT = { checkpoint: { graceMs: ms(2_000) } };

const leaseWith = (ofIt: { readonly seq?: number; readonly gpus?: number }): Lease => ({
  id: leaseId(token(1)),
  token: token(1),
  ...gangRequest({ job: "runs", gpus: ofIt.gpus ?? 8 }),
  seq: ofIt.seq ?? 1,
  gpus: gpus(["c0/h0", 2 ** (ofIt.gpus ?? 8) - 1]),
  grantedAtMs: 0,
  state: "held",
});

const at = (nowMs: number) => ({ nowMs, stretch: 1 });

describe("least attained service", () => {
  test("a job is one level higher for each time that it asked before, up to the last", () => {
    expect([1, 2, 3, 50].map((seq) => levelOf({ seq }))).toEqual([0, 1, 2, MOST_LEVELS - 1]);
  });

  test("a run gives way to a new job when it has used up the first level, sooner with more GPUs", () => {
    expect(leastServed.givesWayAtMs(leaseWith({ gpus: 1 }), 0, 1)).toBe(QUANTUM_GPU_MS);
    expect(leastServed.givesWayAtMs(leaseWith({ gpus: 8 }), 0, 1)).toBe(QUANTUM_GPU_MS / 8);
    expect(leastServed.givesWay(leaseWith({ gpus: 8 }), 0, at(QUANTUM_GPU_MS / 8 - 1))).toBe(false);
  });

  test("levels grow geometrically, and the last one has no end", () => {
    expect(leastServed.givesWayAtMs(leaseWith({ gpus: 1 }), 2, 1)).toBe(
      QUANTUM_GPU_MS * GROWTH ** 2,
    );
    expect(leastServed.givesWayAtMs(leaseWith({ gpus: 1 }), MOST_LEVELS - 1, 1)).toBe(Infinity);
  });

  test("a job that gave way before gives way to a new one at once", () => {
    expect(leastServed.givesWay(leaseWith({ seq: 2 }), 0, at(0))).toBe(true);
    expect(leastServed.givesWay(leaseWith({ seq: 2 }), 1, at(0))).toBe(false);
  });

  test.each([
    { waitingGpus: 0, heldGpus: 8, want: 1 },
    { waitingGpus: 8, heldGpus: 8, want: 1 },
    { waitingGpus: 20, heldGpus: 8, want: 2.5 },
    { waitingGpus: 999, heldGpus: 8, want: GROWTH },
    { waitingGpus: 3, heldGpus: 0, want: 3 },
  ])(
    "while $waitingGpus GPUs wait and $heldGpus are held, levels last $want times as long",
    ({ waitingGpus, heldGpus, want }) => {
      const stretch = stretchOf(leastServedStretched, waitingGpus, heldGpus);
      expect(stretch).toBe(want);
      expect(leastServedStretched.givesWayAtMs(leaseWith({ gpus: 1 }), 0, stretch)).toBe(
        QUANTUM_GPU_MS * want,
      );
      expect(stretchOf(leastServed, waitingGpus, heldGpus)).toBe(1);
    },
  );

  test("a level's delay grows and is bounded, so that age overtakes", () => {
    const delays = Array.from({ length: MOST_LEVELS }, (_, level) => delayMs(level));
    expect([...delays].sort((a, b) => a - b)).toEqual(delays);
    expect(Math.max(...delays)).toBeLessThan(Infinity);
  });
});

test("an oracle's job gives way where its rest is clearly longer", () => {
  const limited = {
    ...leaseWith({}),
    terms: { ...gangRequest({ gpus: 8 }), timeLimitMs: ms(1_000) },
  };
  const rank = (limitMs: number): number =>
    shortestRest.rankOf({ ...gangRequest({ gpus: 8, timeLimitMs: ms(limitMs) }), arrival: 0 });
  expect(shortestRest.givesWay(limited, rank(400), at(0))).toBe(true);
  expect(shortestRest.givesWay(limited, rank(400), at(300))).toBe(false);
});

/** `long` and `other` hold the two hosts since time 0, and a new job of the tenant of `long` wants one. */
function contended(spec: Parameters<typeof gangRequest>[0] = {}, nowMs = 600_000): Ledger {
  const long = leased(readyLedger(SHAPE), { job: "long", gpus: 8, ...CHECKPOINT, ...spec }, H0);
  const both = leased(long, { job: "other", gpus: 8, ...CHECKPOINT, tenant: "u" }, H1);
  const request = { job: "new", gpus: 8, submittedAtMs: nowMs, requestedAtMs: nowMs };
  return inbox(both, [{ kind: "request", request: gangRequest(request) }], nowMs).ledger;
}

const victims = (ledger: Ledger, nowMs = 600_000): readonly (string | undefined)[] =>
  (decide(ledger, nowMs).evict ?? []).map(({ lease }) => ledger.leases.get(lease)?.jobId);

describe("in a cycle", () => {
  test("the job of the same tenant that was served more gives way, and no other tenant's", () => {
    expect(victims(contended())).toEqual(["long"]);
  });

  test.each([
    ["is of a higher priority", { priority: 1 }],
    [
      "is protected still",
      { preemption: { isPreemptible: true, mayShrink: false, minRuntimeMs: ms(700_000) } },
    ],
    [
      "may not be preempted",
      { preemption: { isPreemptible: false, mayShrink: false, minRuntimeMs: ms(0) } },
    ],
  ])("not where it %s", (_why, spec) => {
    expect(victims(contended(spec))).toEqual([]);
  });

  test("later where more GPUs wait on the level than the tenant holds", () => {
    const nowMs = 600_000;
    const more = ["a", "b"].map((job) => {
      const request = gangRequest({ job, gpus: 8, submittedAtMs: nowMs, requestedAtMs: nowMs });
      return { kind: "request", request } as const;
    });
    const ledger = inbox(contended(), more, nowMs).ledger;
    expect(victims(ledger)).toEqual([]);
    expect(decide(ledger, nowMs).wakeAtMs).toBe((3 * QUANTUM_GPU_MS) / 8);
    expect(victims(ledger, (3 * QUANTUM_GPU_MS) / 8)).toEqual(["long"]);
  });

  test("not before its level is used up, and the next cycle comes then", () => {
    const nowMs = 120_000;
    const ledger = contended({}, nowMs);
    expect(victims(ledger, nowMs)).toEqual([]);
    expect(decide(ledger, nowMs).wakeAtMs).toBe(QUANTUM_GPU_MS / 8);
  });
});

test("evictions by order come to rest: a job that gave way and asks again evicts nothing in return", () => {
  fc.assert(
    fc.property(
      fc.array(fc.record({ gpus: fc.integer({ min: 1, max: 8 }), runMs: fc.nat(4_000_000) }), {
        minLength: 2,
        maxLength: 12,
      }),
      (jobs) => {
        let ledger = readyLedger(SHAPE);
        let nowMs = 0;
        for (const [at, { gpus: count, runMs }] of jobs.entries()) {
          const spec = { job: `j${String(at)}`, gpus: count, ...CHECKPOINT };
          const request = gangRequest({ ...spec, submittedAtMs: nowMs, requestedAtMs: nowMs });
          ledger = inbox(ledger, [{ kind: "request", request }], nowMs).ledger;
          const rounds = settle(ledger, nowMs);
          expect(rounds.evictions).toBeLessThanOrEqual(2 * jobs.length);
          ledger = rounds.ledger;
          expect(checkLedger(ledger)).toEqual([]);
          nowMs += runMs;
        }
      },
    ),
    { numRuns: 20 },
  );
});

/** Decides at one moment until nothing changes; evicted jobs stop at once and ask again. */
function settle(start: Ledger, nowMs: number): { readonly ledger: Ledger; evictions: number } {
  let ledger = start;
  let evictions = 0;
  for (let round = 0; round < 100; round += 1) {
    const plan = decide(ledger, nowMs);
    const applied = apply(ledger, { kind: "plan", plan, nowMs });
    expect(applied.refusals).toEqual([]);
    ledger = applied.ledger;
    const evicted = [...ledger.leases.values()].filter(({ eviction }) => eviction !== undefined);
    if (plan.items.length === 0 && evicted.length === 0) return { ledger, evictions };
    for (const { jobId: job, seq, terms } of evicted) {
      evictions += 1;
      const again = { ...terms, job, seq: seq + 1, requestedAtMs: nowMs, tenant: "t" };
      const request = gangRequest({ ...again, gpus: terms?.gang.gpus ?? 1 });
      ledger = inbox(ledger, [end(job, { seq }), { kind: "request", request }], nowMs).ledger;
    }
  }
  throw new Error(`evictions of ${jobId("j")} and others never came to rest`);
}
