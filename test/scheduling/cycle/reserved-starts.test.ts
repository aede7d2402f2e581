/** @file Starts on reserved GPUs: only on just those, only when all are free, and before any other request. */
import { describe, expect, test } from "vitest";
import type { HostGpus, Reservation } from "../../../domain/lease/lease.ts";
import { jobId } from "../../../domain/values/ids.ts";
import { ms } from "../../../domain/values/units.ts";
import { startJustReserved, startReserved } from "../../../scheduling/cycle/reserved-starts.ts";
import type { Ledger } from "../../../scheduling/ledger/ledger.ts";
import { reservationOf, setBackfill } from "../../../scheduling/reservation/reservation-set.ts";
import { gpus, type RequestSpec } from "../builders.ts";
import { openCycle, requestOf } from "../cycle-parts.ts";
import { H0, H1, ledgerWith, reserved, type Held } from "../reservation/reservations.ts";

const withReservation = (ledger: Ledger, reservation: Reservation): Ledger => ({
  ...ledger,
  reservations: new Map([[reservation.jobId, reservation]]),
});

function started(
  held: readonly Held[],
  spec: RequestSpec,
  reservation: Reservation,
  only?: string,
) {
  const ledger = withReservation(ledgerWith(held, [{ job: "a", ...spec }]), reservation);
  const { input, parts } = openCycle(
    ledger,
    1_000,
    only === undefined ? {} : { onlyFor: jobId(only) },
  );
  startReserved(input, parts);
  return { items: parts.plan.items.map((item) => item.gpus), parts };
}

const SHRINKING = { gang: { min: 4, timeoutMs: ms(0) } };
const HALF: readonly HostGpus[] = gpus(["c0/h0", 0x0f]);

describe("a job with reserved GPUs", () => {
  test.each<{
    name: string;
    held?: readonly Held[];
    spec?: RequestSpec;
    reservation: Reservation;
    want: readonly (readonly HostGpus[])[];
  }>([
    { name: "starts on them when all are free", reservation: reserved("a", H1), want: [H1] },
    {
      name: "waits while one is leased",
      held: [["run", gpus(["c0/h1", 1])]],
      reservation: reserved("a", H1),
      want: [],
    },
    {
      name: "is nominated in queue order where it could have more elsewhere",
      spec: SHRINKING,
      reservation: reserved("a", HALF),
      want: [],
    },
    {
      name: "goes on with the GPUs that it kept, where it could have more elsewhere",
      spec: SHRINKING,
      reservation: reserved("a", HALF, { kind: "keep" }),
      want: [HALF],
    },
    {
      name: "takes others where evictions freed too few",
      reservation: reserved("a", HALF, { kind: "preemption" }),
      want: [H0],
    },
  ])("$name", ({ held = [], spec = {}, reservation, want }) => {
    expect(started(held, { gpus: 8, ...spec }, reservation).items).toEqual(want);
  });

  test("has no backfill reservation after its start, and keeps any other until `apply`", () => {
    const backfill = started([], { gpus: 8 }, reserved("a", H1));
    expect(reservationOf(backfill.parts.reservations, jobId("a"))).toBeUndefined();
    const kept = started([], { gpus: 8 }, reserved("a", H1, { kind: "keep" }));
    expect(reservationOf(kept.parts.reservations, jobId("a"))?.gpus).toEqual(H1);
  });

  test("that the cycle was asked about is nominated, so that its place in the queue is found", () => {
    expect(started([], { gpus: 8 }, reserved("a", H1), "a").items).toEqual([]);
    expect(started([], { gpus: 8 }, reserved("a", H1), "b").items).toEqual([H1]);
  });
});

test("a reservation of this cycle starts its job at once when all its GPUs are free", () => {
  const ledger = ledgerWith(
    [["run", H0]],
    [
      { job: "a", gpus: 8 },
      { job: "b", gpus: 8 },
    ],
  );
  const { input, parts } = openCycle(ledger, 1_000);
  setBackfill(parts.reservations, jobId("a"), reserved("a", H1));
  setBackfill(parts.reservations, jobId("b"), reserved("b", H0));
  expect(startJustReserved(input, parts, requestOf(ledger, "b"))).toBe(false);
  expect(startJustReserved(input, parts, requestOf(ledger, "a"))).toBe(true);
  expect(parts.plan.items).toMatchObject([{ request: { jobId: "a" }, gpus: H1 }]);
});
