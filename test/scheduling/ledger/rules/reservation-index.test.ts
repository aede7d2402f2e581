/** @file Reserved GPUs: an index that is kept up to date equals a new one, and says which of them another job may have. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Reservation } from "../../../../domain/lease/lease.ts";
import { jobId } from "../../../../domain/values/ids.ts";
import { ms } from "../../../../domain/values/units.ts";
import {
  addReserved,
  dropReserved,
  forbiddenTo,
  isKept,
  maskIn,
  opportunisticGpus,
  reservedForOthers,
  reservedOf,
  sharedGpus,
  usableBy,
  withoutGpus,
} from "../../../../scheduling/ledger/rules/reservation-index.ts";
import { gpus, host } from "../../builders.ts";

const H0 = host("c0/h0");
const reservation = (job: string, mask: number, of: Partial<Reservation> = {}): Reservation => ({
  jobId: jobId(job),
  gpus: gpus(["c0/h0", mask]),
  kind: "backfill",
  sinceMs: 0,
  ...of,
});

test("added and dropped one by one, as if built of what is left", () => {
  const step = fc.record({ job: fc.constantFrom("a", "b", "c"), isAdded: fc.boolean() });
  const masks = { a: 0b0011, b: 0b1100, c: 0b110000 } as const;
  fc.assert(
    fc.property(fc.array(step), (steps) => {
      const reserved = reservedOf([]);
      const held = new Map<string, Reservation>();
      for (const { job, isAdded } of steps) {
        const each = reservation(job, masks[job]);
        if (isAdded) {
          addReserved(reserved, each);
          held.set(job, each);
        } else if (held.delete(job)) dropReserved(reserved, each);
      }
      const fresh = reservedOf(held.values());
      expect(reserved.masks.get(H0) ?? 0).toBe(fresh.masks.get(H0) ?? 0);
      expect(new Set(reserved.byJob.keys())).toEqual(new Set(fresh.byJob.keys()));
    }),
  );
});

describe("a job may have", () => {
  const reserved = reservedOf([
    reservation("a", 0b0011, { usableUntilMs: 1_000 }),
    reservation("b", 0b1100, { kind: "preemption" }),
  ]);
  const mayNot = (job: string, timeLimitMs?: number): number =>
    forbiddenTo(
      reserved,
      { jobId: jobId(job), ...(timeLimitMs !== undefined && { timeLimitMs: ms(timeLimitMs) }) },
      { host: H0, nowMs: 400 },
    );

  test.each([
    { what: "its own GPUs", job: "a", limit: undefined, want: 0b1100 },
    { what: "no others without a time limit", job: "x", limit: undefined, want: 0b1111 },
    { what: "those of a start that it ends before", job: "x", limit: 600, want: 0b1100 },
    { what: "not those of a start that it ends after", job: "x", limit: 601, want: 0b1111 },
  ])("$what", ({ job, limit, want }) => {
    expect(mayNot(job, limit)).toBe(want);
  });

  test("all that is reserved for others is all less its own", () => {
    expect(reservedForOthers(reserved, jobId("b"), H0)).toBe(0b0011);
    expect(usableBy(reserved, { jobId: jobId("x") }, H0)).toBe(0b0011);
    expect(usableBy(reserved, { jobId: jobId("a") }, H0)).toBe(0);
    const request = { jobId: jobId("x") };
    const found = opportunisticGpus(reserved, request, {
      gpus: gpus(["c0/h1", 7], ["c0/h0", 0b10001]),
      nowMs: 0,
    });
    expect(found).toEqual(gpus(["c0/h0", 1]));
  });
});

test("sets of GPUs: what two share and what one lacks make up the first", () => {
  const set = fc
    .tuple(fc.nat({ max: 15 }), fc.nat({ max: 15 }))
    .map(([a, b]) => gpus(["c0/h0", a], ["c0/h1", b]).filter(({ mask }) => mask > 0));
  fc.assert(
    fc.property(set, set, (a, b) => {
      for (const name of ["c0/h0", "c0/h1"].map(host)) {
        const shared = maskIn(sharedGpus(a, b), name);
        const rest = maskIn(withoutGpus(a, b), name);
        expect(shared | rest).toBe(maskIn(a, name));
        expect(shared & rest).toBe(0);
        expect(shared & ~maskIn(b, name)).toBe(0);
        expect(rest & maskIn(b, name)).toBe(0);
      }
    }),
  );
});

test.each([
  { of: reservation("a", 3, { kind: "keep" }), mask: 3, want: true },
  { of: reservation("a", 3, { kind: "keep" }), mask: 1, want: false },
  { of: reservation("a", 3, { kind: "keep" }), mask: 5, want: false },
  { of: reservation("a", 3), mask: 3, want: false },
])("kept GPUs are granted whole ($mask: $want)", ({ of, mask, want }) => {
  expect(isKept(of, gpus(["c0/h0", mask]))).toBe(want);
});
