/** @file The necessary condition for a better reservation: a no is exact, on the cases that decide it. */
import { describe, expect, test } from "vitest";
import { ms } from "../../../domain/values/units.ts";
import { leastSpread } from "../../../scheduling/placement/least-spread.ts";
import { couldImprove } from "../../../scheduling/reservation/improvement-bound.ts";
import { findReservation, fitOf } from "../../../scheduling/reservation/plan-reservation.ts";
import { withoutOwn } from "../../../scheduling/reservation/trial.ts";
import { gpus, type RequestSpec } from "../builders.ts";
import { requestOf } from "../cycle-parts.ts";
import { H0, H1, ledgerWith, openSet, reserved, type Held } from "./reservations.ts";

const run = (job: string, parts: Held[1], endMs: number): Held => [
  job,
  parts,
  { timeLimitMs: ms(endMs) },
];

describe("a reservation of the first host", () => {
  test.each<{ name: string; held: readonly Held[]; b?: RequestSpec; want: boolean }>([
    {
      name: "could be better where another host is free",
      held: [run("x", H0, 60_000)],
      want: true,
    },
    {
      name: "could be better where another host is free sooner",
      held: [run("x", H0, 60_000), run("y", H1, 30_000)],
      want: true,
    },
    {
      name: "could not where all others are free later",
      held: [run("x", H0, 60_000), run("y", H1, 90_000)],
      want: false,
    },
    {
      name: "could be better where as soon more of it is free",
      held: [run("x", H0, 60_000), run("y", gpus(["c0/h1", 0x0f]), 60_000)],
      want: true,
    },
    {
      name: "needs the search for a gang on one host",
      held: [run("x", H0, 60_000), run("y", H1, 90_000)],
      b: { constraints: { isSameHost: true } },
      want: true,
    },
  ])("$name", ({ held, b, want }) => {
    const ledger = ledgerWith(held, [{ job: "b", gpus: 8, ...b }]);
    const { view } = openSet(ledger, [reserved("b", H0)]);
    expect(couldImprove(requestOf(ledger, "b"), fitOf(H0, view), view)).toBe(want);
  });

  test("is not searched again while the hosts are as they were", () => {
    const held = [run("x", gpus(["c0/h0", 0x0f]), 60_000), run("y", H1, 60_000)];
    const ledger = ledgerWith(held, [{ job: "b", gpus: 8 }]);
    const own = gpus(["c0/h0", 0x0f], ["c0/h1", 0x0f]);
    const { reservations, view } = openSet(ledger, [reserved("b", own)]);
    const request = requestOf(ledger, "b");
    const known = fitOf(own, view);
    expect(couldImprove(request, known, view)).toBe(true);
    const found = withoutOwn(reservations, request.jobId, () =>
      findReservation(request, view, { place: () => ({ gpus: own, candidates: 1 }), known }),
    );
    expect(found?.gpus).toBe(own);
    expect(couldImprove(request, known, view)).toBe(false);
    const better = withoutOwn(reservations, request.jobId, () =>
      findReservation(request, view, { place: leastSpread, known }),
    );
    expect(better?.gpus).toEqual(H0);
    expect(couldImprove(request, known, view)).toBe(true);
  });
});
