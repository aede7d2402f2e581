/** @file Which reserved GPUs a request may use: within the shadow time, from a young reservation that the cycle has not visited, or as headroom. */
import { describe, expect, test } from "vitest";
import { jobId } from "../../../domain/values/ids.ts";
import { ms } from "../../../domain/values/units.ts";
import {
  incompleteReservations,
  isAnyOpenTo,
  PREEMPTIBLE_BY_INFERENCE_MS,
  PREEMPTIBLE_MS,
  preemptibleBy,
  reservationsOpenTo,
  takenBy,
} from "../../../scheduling/reservation/access.ts";
import { reserveHeadroom, visit } from "../../../scheduling/reservation/reservation-set.ts";
import { requestOf } from "../cycle-parts.ts";
import type { RequestSpec } from "../builders.ts";
import { gpus } from "../builders.ts";
import { H0, H1, ledgerWith, openSet, reserved } from "./reservations.ts";

const OLD_MS = PREEMPTIBLE_MS + 1;

/** `big` waits since 0 for both hosts, of which `run` has the first. */
function scene(small: RequestSpec, { nowMs = OLD_MS, untilMs = 0 } = {}) {
  const ledger = ledgerWith(
    [["run", H0]],
    [
      { job: "big", gpus: 16 },
      { job: "small", ...small },
    ],
  );
  const terms = untilMs === 0 ? {} : { usableUntilMs: untilMs };
  const found = openSet(ledger, [reserved("big", [...H0, ...H1], terms)], { nowMs });
  return { ...found, small: requestOf(ledger, "small"), big: requestOf(ledger, "big") };
}

const jobsIn = (all: readonly { readonly jobId: string }[]) => all.map((each) => each.jobId);

describe("a reservation is open to", () => {
  test.each<{
    name: string;
    small: RequestSpec;
    nowMs?: number;
    untilMs?: number;
    want: readonly string[];
  }>([
    { name: "any request while it is young", small: {}, nowMs: PREEMPTIBLE_MS - 1, want: ["big"] },
    { name: "none without a limit when it is old", small: {}, want: [] },
    {
      name: "a job that ends by the shadow time",
      small: { timeLimitMs: ms(1_000) },
      untilMs: OLD_MS + 1_000,
      want: ["big"],
    },
    {
      name: "no job that ends later",
      small: { timeLimitMs: ms(1_001) },
      untilMs: OLD_MS + 1_000,
      want: [],
    },
    { name: "inference for twice as long", small: { class: "inference" }, want: ["big"] },
    {
      name: "not even inference after that",
      small: { class: "inference" },
      nowMs: PREEMPTIBLE_BY_INFERENCE_MS,
      want: [],
    },
    {
      name: "no array, whose end no limit names",
      small: { slots: 2 },
      nowMs: PREEMPTIBLE_MS - 1,
      want: [],
    },
  ])("$name", ({ small: spec, nowMs, untilMs, want }) => {
    const { reservations, small } = scene(spec, {
      ...(nowMs !== undefined && { nowMs }),
      ...(untilMs !== undefined && { untilMs }),
    });
    expect(jobsIn(reservationsOpenTo(reservations, small))).toEqual(want);
    const limitMs = spec.timeLimitMs ?? Infinity;
    if (spec.slots === undefined)
      expect(isAnyOpenTo(reservations, limitMs, small.class)).toBe(want.length > 0);
  });

  test("no request once the cycle has visited its job", () => {
    const { reservations, small } = scene({}, { nowMs: 1 });
    expect(jobsIn(preemptibleBy(reservations, small))).toEqual(["big"]);
    visit(reservations, jobId("big"));
    expect(preemptibleBy(reservations, small)).toEqual([]);
    expect(reservationsOpenTo(reservations, small)).toEqual([]);
  });

  test("other jobs than its own", () => {
    const { reservations, big } = scene({}, { nowMs: 1 });
    expect(reservationsOpenTo(reservations, big)).toEqual([]);
  });
});

test("the headroom is open to inference, and preemptible by every request that cannot start", () => {
  const { reservations, small } = scene({ class: "inference" });
  const { reservations: other, small: training } = scene({});
  for (const each of [reservations, other]) {
    reserveHeadroom(each, gpus(["c0/h1", 1]));
  }
  expect(jobsIn(reservationsOpenTo(reservations, small))).toEqual(["inference headroom", "big"]);
  expect(reservationsOpenTo(other, training)).toEqual([]);
  expect(jobsIn(preemptibleBy(other, training))).toEqual(["inference headroom"]);
});

test("a grant takes GPUs from a reservation that it preempts, and none within the shadow time", () => {
  const { reservations, small } = scene({ timeLimitMs: ms(1_000) }, { nowMs: 1, untilMs: 2_000 });
  const request = small;
  const takenOf = takenBy(reservations, { request, gpus: H1 });
  expect(takenOf(reserved("big", [...H0, ...H1], { usableUntilMs: 2_000 }))).toEqual([]);
  expect(takenOf(reserved("big", [...H0, ...H1]))).toEqual(H1);
});

test("of incomplete reservations the farthest from its start comes first", () => {
  const ledger = ledgerWith(
    [["run", gpus(["c0/h0", 0x3f])]],
    [{ job: "near" }, { job: "far" }, { job: "full" }],
  );
  const { reservations } = openSet(ledger, [
    reserved("near", gpus(["c0/h0", 0x60])),
    reserved("far", gpus(["c0/h0", 0x87])),
    reserved("full", gpus(["c0/h1", 0x01])),
  ]);
  expect(jobsIn(incompleteReservations(reservations))).toEqual(["far", "near"]);
});
