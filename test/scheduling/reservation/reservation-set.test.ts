/** @file The reservations of one cycle: what changes them, what that opens to all, and how the capacity comes back. */
import { describe, expect, test } from "vitest";
import { gpuCountOf } from "../../../domain/lease/lease.ts";
import { jobId } from "../../../domain/values/ids.ts";
import {
  closeReservations,
  endReservation,
  freeGpusIn,
  hasRoom,
  INFERENCE_HEADROOM,
  mayReserve,
  relinquish,
  reservationOf,
  reserveForPreemptor,
  reserveForVictim,
  reserveHeadroom,
  visit,
} from "../../../scheduling/reservation/reservation-set.ts";
import type { Capacity } from "../../../scheduling/capacity/capacity-state.ts";
import { fleetCounts } from "../../../scheduling/cycle/fleet-counts.ts";
import { RESERVATION_RULES } from "../../../scheduling/cycle/policies.ts";
import { tryOut } from "../../../scheduling/capacity/trial.ts";
import { fleetShape, gangRequest, gpus, host, leased, readyLedger } from "../builders.ts";
import { ms } from "../../../domain/values/units.ts";
import { H0, H1, ledgerWith, openSet, reserved } from "./reservations.ts";

const A = jobId("a");
const LEDGER = ledgerWith([["run", H0]], [{ job: "a", gpus: 16 }]);
const WHOLE = reserved("a", [...H0, ...H1]);

const open = (backfill: "persistent" | "easy" = "persistent") =>
  openSet(LEDGER, [WHOLE], { backfill });

describe("a set of reservations", () => {
  test("has those of the ledger, on the capacity", () => {
    const { reservations, view } = open();
    expect(reservationOf(reservations, A)).toBe(WHOLE);
    expect(freeGpusIn(reservations, WHOLE)).toBe(8);
    expect(fleetCounts(view.capacity)).toEqual({ open: 0, reservable: 0 });
    expect(hasRoom(reservations)).toBe(true);
  });

  test("begins empty where reservations do not last", () => {
    const { reservations, view } = open("easy");
    expect(reservations.backfill.size).toBe(0);
    expect(fleetCounts(view.capacity)).toEqual({ open: 8, reservable: 16 });
  });

  test("opens the GPUs of a reservation that ends, once", () => {
    const { reservations, view } = open();
    endReservation(reservations, A);
    endReservation(reservations, A);
    expect(reservations).toMatchObject({ openings: 1, changes: 1 });
    expect(fleetCounts(view.capacity).open).toBe(8);
  });

  test("keeps the rest of a reservation from which another job takes GPUs", () => {
    const { reservations } = open();
    relinquish(reservations, WHOLE, gpus(["c0/h1", 0x0f]));
    expect(reservations.backfill.get(A)?.gpus).toEqual([...H0, ...gpus(["c0/h1", 0xf0])]);
    relinquish(reservations, reserved("a", H1), H1);
    expect(reservations.backfill.has(A)).toBe(false);
  });

  test("has no backfill reservation any more for a job that preempts", () => {
    const { reservations } = open();
    reserveForPreemptor(reservations, { jobId: A, gpus: H0, kind: "preemption" });
    expect(reservations.backfill.size).toBe(0);
    expect(reservations.openings).toBe(1);
    expect(reservationOf(reservations, A)).toMatchObject({ kind: "preemption", gpus: H0 });
  });

  test("reserves for victims and for the headroom without a place among the backfill reservations", () => {
    const { reservations } = open();
    endReservation(reservations, A);
    reserveForVictim(reservations, { jobId: jobId("run"), gpus: H0 });
    reserveHeadroom(reservations, H1);
    expect(reservationOf(reservations, jobId("run"))?.kind).toBe("keep");
    expect(gpuCountOf(reservationOf(reservations, INFERENCE_HEADROOM)?.gpus ?? [])).toBe(8);
    expect(reservations.backfill.size).toBe(0);
  });

  test("notes a visit only of jobs that have a backfill reservation", () => {
    const { reservations } = open();
    visit(reservations, A);
    visit(reservations, jobId("run"));
    expect([...reservations.visited]).toEqual([A]);
  });

  test("puts the capacity back when the cycle is over", () => {
    const { reservations, view } = open();
    const before = new Map(view.capacity.reserved.masks);
    endReservation(reservations, A);
    reserveForVictim(reservations, { jobId: jobId("run"), gpus: H1 });
    closeReservations(reservations);
    expect([...view.capacity.reserved.byJob.values()]).toEqual([WHOLE]);
    expect(view.capacity.reserved.masks).toEqual(before);
  });
});

/** A lease that takes more processors than its share strands free GPUs: of those, first the ones that nobody has reserved, whenever that was. */
test("a reservation has its free GPUs before and after a trial that strands others", () => {
  const shape = fleetShape([{ hosts: [{ cpus: 64 }] }]);
  const hungry = { job: "hungry", gpus: 2, constraints: { resources: { cpus: 16 } } };
  const ledger = leased(readyLedger(shape), hungry, gpus(["c0/h0", 0b0000_0011]));
  const [lease] = ledger.leases.values();
  const stranded = (capacity: Capacity) => capacity.hosts.get(host("c0/h0"))?.strandedMask;
  expect(stranded(openSet(ledger, []).view.capacity)).toBe(0b1100_0000);
  const own = reserved("own", gpus(["c0/h0", 0b1111_0000]));
  const { reservations, view } = openSet(ledger, [own]);
  const counted = () => [freeGpusIn(reservations, own), stranded(view.capacity)];
  expect(counted()).toEqual([4, 0b0000_1100]);
  tryOut(view.capacity, (trial) => {
    if (lease !== undefined) trial.removeLease(lease);
  });
  expect(counted()).toEqual([4, 0b0000_1100]);
});

test("a patient request waits for three days and the delay of its level; one with a time limit or without checkpoints does not", () => {
  const HOUR_MS = 3_600_000;
  const { patient, persistent } = RESERVATION_RULES;
  const first = { ...gangRequest({ checkpoint: { graceMs: ms(1_000) } }), arrival: 1 };
  const firstAtMs = (request: typeof first): number =>
    [0, 72, 84, 120, 264].find((hours) => mayReserve(patient, request, hours * HOUR_MS)) ??
    Infinity;
  expect([1, 2, 3, 4].map((seq) => firstAtMs({ ...first, seq }))).toEqual([72, 84, 120, 264]);
  expect(firstAtMs({ ...first, timeLimitMs: ms(1_000) })).toBe(0);
  expect(firstAtMs({ ...gangRequest({ seq: 4 }), arrival: 1 })).toBe(0);
  expect(mayReserve(persistent, { ...first, seq: 4 }, 0)).toBe(true);
});
