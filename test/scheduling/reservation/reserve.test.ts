/** @file Reserves for requests that cannot start: the first place, the better one, the same one, and at whose cost. */
import { describe, expect, test } from "vitest";
import { gpuCountOf } from "../../../domain/lease/lease.ts";
import { jobId } from "../../../domain/values/ids.ts";
import { ms } from "../../../domain/values/units.ts";
import { leastSpread } from "../../../scheduling/placement/least-spread.ts";
import { reservationOf, visit } from "../../../scheduling/reservation/reservation-set.ts";
import { reserve } from "../../../scheduling/reservation/reserve.ts";
import { gpus } from "../builders.ts";
import { requestOf } from "../cycle-parts.ts";
import { H0, H1, ledgerWith, openSet, reserved, type Held } from "./reservations.ts";

const LIMIT = { timeLimitMs: ms(60_000) };
const SOON: Held = ["soon", H0, LIMIT];
const LATER: Held = ["later", H1, { timeLimitMs: ms(600_000) }];
const B = jobId("b");

function reserveFor(scene: ReturnType<typeof openSet>, ledger: ReturnType<typeof ledgerWith>) {
  const { view, reservations } = scene;
  const has = reserve(reservations, requestOf(ledger, "b"), { view, place: leastSpread });
  return { has, own: reservationOf(reservations, B) };
}

describe("a request that cannot start reserves", () => {
  test("the GPUs that are free first, and says until when others may use them", () => {
    const ledger = ledgerWith([SOON, LATER], [{ job: "b", gpus: 8 }]);
    const { has, own } = reserveFor(openSet(ledger, []), ledger);
    expect(has).toBe(true);
    expect(own).toMatchObject({
      gpus: H0,
      kind: "backfill",
      usableUntilMs: 60_000,
      sinceMs: 1_000,
    });
  });

  test("another place only when that is ready sooner", () => {
    const ledger = ledgerWith([SOON], [{ job: "b", gpus: 8 }]);
    const scene = openSet(ledger, [reserved("b", H0, { usableUntilMs: 60_000 })]);
    const { own } = reserveFor(scene, ledger);
    expect(own).toMatchObject({ gpus: H1, sinceMs: 0 });
    expect(scene.reservations.openings).toBe(1);
  });

  test("the same GPUs when nothing is better, without a change", () => {
    const ledger = ledgerWith([SOON, LATER], [{ job: "b", gpus: 8 }]);
    const own = reserved("b", H0, { usableUntilMs: 60_000 });
    const scene = openSet(ledger, [own]);
    expect(reserveFor(scene, ledger)).toEqual({ has: true, own });
    expect(scene.reservations).toMatchObject({ openings: 0, changes: 0 });
  });

  test("the same GPUs with a nearer time, never a later one", () => {
    const ledger = ledgerWith([SOON, LATER], [{ job: "b", gpus: 8 }]);
    const late = openSet(ledger, [reserved("b", H0, { usableUntilMs: 90_000 })]);
    expect(reserveFor(late, ledger).own).toMatchObject({ gpus: H0, usableUntilMs: 60_000 });
    const early = openSet(ledger, [reserved("b", H0, { usableUntilMs: 30_000 })]);
    expect(reserveFor(early, ledger).own).toMatchObject({ gpus: H0, usableUntilMs: 30_000 });
  });

  test("GPUs of its size instead of ones that no longer serve it", () => {
    const ledger = ledgerWith([SOON, LATER], [{ job: "b", gpus: 8 }]);
    const scene = openSet(ledger, [reserved("b", gpus(["c0/h1", 0x0f]))]);
    expect(reserveFor(scene, ledger).own?.gpus).toEqual(H0);
    expect(scene.reservations.openings).toBe(1);
  });

  test("at the cost of a preemptible reservation, and of none that the cycle has visited", () => {
    const ledger = ledgerWith(
      [SOON, LATER],
      [
        { job: "a", gpus: 16 },
        { job: "b", gpus: 8 },
      ],
    );
    const young = openSet(ledger, [reserved("a", [...H0, ...H1])]);
    expect(reserveFor(young, ledger).own?.gpus).toEqual(H0);
    expect(reservationOf(young.reservations, jobId("a"))?.gpus).toEqual(H1);
    const visited = openSet(ledger, [reserved("a", [...H0, ...H1])]);
    visit(visited.reservations, jobId("a"));
    expect(reserveFor(visited, ledger)).toEqual({ has: false, own: undefined });
  });

  test("a part of a place only where the rule allows it", () => {
    const ledger = ledgerWith(
      [SOON],
      [
        { job: "a", gpus: 8 },
        { job: "b", gpus: 16 },
      ],
    );
    const partOf = (backfill: "persistent" | "conservative") => {
      const scene = openSet(ledger, [], { backfill });
      const { view, reservations } = scene;
      reserve(reservations, requestOf(ledger, "a"), { view, place: leastSpread });
      return gpuCountOf(reserveFor(scene, ledger).own?.gpus ?? []);
    };
    expect([partOf("persistent"), partOf("conservative")]).toEqual([0, 8]);
  });

  test("nothing when as many requests have reservations as may", () => {
    const ledger = ledgerWith(
      [SOON, LATER],
      [
        { job: "a", gpus: 8 },
        { job: "b", gpus: 8 },
      ],
    );
    const scene = openSet(ledger, [], { backfill: "easy" });
    const { view, reservations } = scene;
    reserve(reservations, requestOf(ledger, "a"), { view, place: leastSpread });
    expect(reserveFor(scene, ledger)).toEqual({ has: false, own: undefined });
  });

  test("nothing else when evictions free GPUs for it", () => {
    const ledger = ledgerWith([SOON, LATER], [{ job: "b", gpus: 8 }]);
    const own = reserved("b", H1, { kind: "preemption" });
    expect(reserveFor(openSet(ledger, [own]), ledger)).toEqual({ has: true, own });
  });
});
