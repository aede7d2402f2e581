/** @file Trials: whatever an attempt releases, and in whatever order, is back after a rollback; a commit gives up what was taken. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { jobId } from "../../../domain/values/ids.ts";
import { fleetCounts } from "../../../scheduling/cycle/fleet-counts.ts";
import { reservationOf } from "../../../scheduling/reservation/reservation-set.ts";
import {
  commit,
  rollback,
  touchInTrial,
  touchOwn,
  withoutOwn,
  withTrial,
} from "../../../scheduling/reservation/trial.ts";
import { gpus } from "../builders.ts";
import { H0, ledgerWith, openSet, reserved } from "./reservations.ts";

const LEDGER = ledgerWith([], [{ job: "a" }, { job: "b" }, { job: "c" }]);
const ALL = [
  reserved("a", H0),
  reserved("b", gpus(["c0/h1", 0x0f])),
  reserved("c", gpus(["c0/h1", 0x70]), { kind: "preemption" }),
];
const JOBS = ["a", "b", "c", "unknown"].map(jobId);
const open = () => openSet(LEDGER, ALL);

describe("a trial", () => {
  test("that is rolled back leaves reservations, masks and counters as they were, nested or not", () => {
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom(...JOBS), { maxLength: 6 }),
        fc.array(fc.constantFrom(...JOBS), { maxLength: 6 }),
        (outer, inner) => {
          const { reservations, view } = open();
          const masks = new Map(view.capacity.reserved.masks);
          const { version } = view.capacity;
          const found = withTrial(reservations, (release) => {
            for (const job of outer) release(job);
            const nested = withTrial(reservations, (releaseMore) => {
              for (const job of inner) releaseMore(job);
              return rollback(fleetCounts(view.capacity).open);
            });
            return rollback(nested);
          });
          const released = new Set([...outer, ...inner]);
          const freed = ALL.filter((each) => released.has(each.jobId));
          const sizes: Record<string, number> = { a: 8, b: 4, c: 3 };
          expect(found).toBe(1 + freed.reduce((sum, each) => sum + (sizes[each.jobId] ?? 0), 0));
          for (const each of ALL) expect(reservationOf(reservations, each.jobId)).toBe(each);
          expect(view.capacity.reserved.masks).toEqual(masks);
          expect(view.capacity.version).toBe(version);
          expect(reservations).toMatchObject({ openings: 0, changes: 0 });
        },
      ),
    );
  });

  test("that takes nothing leaves the order that a touch of the same jobs leaves, and what each has reserved", () => {
    const jobs = fc.uniqueArray(fc.constantFrom(...JOBS), { maxLength: 4 });
    fc.assert(
      fc.property(jobs, fc.constantFrom(...JOBS), (released, own) => {
        const [tried, touched] = [open().reservations, open().reservations];
        withTrial(tried, (release) => {
          for (const job of released) release(job);
          touchOwn(tried, own);
          return rollback(undefined);
        });
        touchInTrial(touched, released, () => touchOwn(touched, own));
        const orderIn = ({ capacity, changed }: typeof tried) => [
          [...capacity.reserved.byJob],
          [...changed],
        ];
        expect(orderIn(touched)).toEqual(orderIn(tried));
      }),
    );
  });

  test("that throws is rolled back", () => {
    const { reservations } = open();
    const attempt = () =>
      withTrial(reservations, (release) => {
        release(jobId("a"));
        throw new Error("no place");
      });
    expect(attempt).toThrow("no place");
    expect(reservationOf(reservations, jobId("a"))).toBe(ALL[0]);
  });

  test("that commits gives up the GPUs that were taken and restores the rest", () => {
    const { reservations } = open();
    const taken = gpus(["c0/h0", 0xff], ["c0/h1", 0x03]);
    const value = withTrial(reservations, (release) => {
      for (const job of JOBS) release(job);
      return commit("granted", ({ kind }) => (kind === "backfill" ? taken : []));
    });
    expect(value).toBe("granted");
    expect(reservationOf(reservations, jobId("a"))).toBeUndefined();
    expect(reservationOf(reservations, jobId("b"))?.gpus).toEqual(gpus(["c0/h1", 0x0c]));
    expect(reservationOf(reservations, jobId("c"))).toBe(ALL[2]);
  });

  test("around one that commits leaves another version, because less is reserved than before", () => {
    const { reservations, view } = open();
    const { version } = view.capacity;
    withoutOwn(reservations, jobId("a"), () =>
      withTrial(reservations, (release) => {
        release(jobId("b"));
        return commit("granted", () => gpus(["c0/h1", 0x03]));
      }),
    );
    expect(reservationOf(reservations, jobId("b"))?.gpus).toEqual(gpus(["c0/h1", 0x0c]));
    expect(view.capacity.version).not.toBe(version);
  });

  test("and what comes after it never see the same version of different capacities", () => {
    const { reservations, view } = open();
    const seen = JOBS.slice(0, 3).map((job) =>
      withoutOwn(reservations, job, () => view.capacity.version),
    );
    expect(new Set([view.capacity.version, ...seen]).size).toBe(4);
  });

  test("releases nothing for a job without a reservation", () => {
    const { reservations } = open();
    withTrial(reservations, (release) => {
      expect(release(jobId("unknown"))).toBeUndefined();
      expect(release(jobId("a"))).toBe(ALL[0]);
      expect(release(jobId("a"))).toBeUndefined();
      return rollback(undefined);
    });
  });

  test("of one's own reservation shows its GPUs as open", () => {
    const { reservations, view } = open();
    const seen = withoutOwn(reservations, jobId("a"), () => fleetCounts(view.capacity).open);
    expect([seen, fleetCounts(view.capacity).open]).toEqual([9, 1]);
  });
});
