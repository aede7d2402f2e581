/** @file The size at which a gang makes most progress: fewer GPUs together beat more apart, and too few are refused. */
import { describe, expect, test } from "vitest";
import { gpuCountOf } from "../../../domain/lease/lease.ts";
import { ms } from "../../../domain/values/units.ts";
import {
  isWorthIt,
  moreProductive,
  productiveSize,
  progressOf,
  type SizeOffer,
} from "../../../scheduling/admission/gang-size.ts";
import type { Level } from "../../../scheduling/capacity/capacity-state.ts";
import { optionsFor } from "../../../scheduling/capacity/capacity.ts";
import type { Ledger } from "../../../scheduling/ledger/ledger.ts";
import { fleetShape, gpus, leased, readyLedger, type RequestSpec } from "../builders.ts";
import { drained, pendingRequest, viewAt } from "../views.ts";

/** Three clusters of 24 GPUs, each in a site of its own. */
const READY = readyLedger(fleetShape([0, 1, 2].map(() => ({ hosts: [{}, {}, {}] }))));
const HOSTS = [0, 1, 2].map((cluster) => [0, 1, 2].map((at) => `c${cluster}/h${at}`));

/** Only the first host of each cluster is free. */
const EIGHT_EACH = HOSTS.flatMap(([, ...others]) => others).reduce(
  (ledger, name) => leased(ledger, { job: name.replace("/", "-"), gpus: 8 }, gpus([name, 0xff])),
  READY,
);

function sizeOf(
  ledger: Ledger,
  spec: RequestSpec,
  { room = Infinity, level = "now", nowMs = 0 }: { room?: number; level?: Level; nowMs?: number },
): SizeOffer | undefined {
  const { capacity } = viewAt(ledger);
  const request = pendingRequest(spec);
  const [type] = optionsFor(capacity, request, nowMs).types;
  return type && productiveSize(request, { type, room, level }, { capacity, nowMs });
}

const anywhere = { maxClusters: 3 };
const from = (min: number, timeoutMs = 0) => ({ gang: { min, timeoutMs: ms(timeoutMs) } });

describe("the productive size of a gang", () => {
  test.each<{
    name: string;
    ledger?: Ledger;
    spec: RequestSpec;
    room?: number;
    want: number | undefined;
  }>([
    {
      name: "is that of one cluster where more would lie in several sites",
      spec: { gpus: 24, ...from(4), constraints: anywhere },
      want: 8,
    },
    {
      name: "is the whole gang over sites where the job accepts nothing less",
      spec: { gpus: 24, constraints: anywhere },
      want: 24,
    },
    {
      name: "is none before the gang timeout where the whole gang would crawl over sites",
      spec: { gpus: 24, ...from(4, 1), constraints: anywhere },
      want: undefined,
    },
    {
      name: "is none below the progress of the least size at its best",
      spec: { gpus: 24, ...from(12), constraints: anywhere },
      want: undefined,
    },
    {
      name: "may be below it where the hosts in service would not give more even when idle",
      ledger: drained(READY, ...HOSTS.flatMap(([, ...others]) => others)),
      spec: { gpus: 24, ...from(12), constraints: anywhere },
      want: 16,
    },
    {
      name: "spans clusters without loss where no cluster could hold it",
      ledger: READY,
      spec: { gpus: 60, ...from(4), constraints: anywhere },
      want: 60,
    },
    {
      name: "is at most the room in the quota",
      ledger: READY,
      spec: { gpus: 24, ...from(4) },
      room: 7,
      want: 7,
    },
    {
      name: "is that of one host where one is asked for",
      ledger: READY,
      spec: { gpus: 24, ...from(4), constraints: { isSameHost: true } },
      want: 8,
    },
    {
      name: "is one of the shapes of the job",
      ledger: READY,
      spec: { gpus: 32, gang: { min: 4, timeoutMs: ms(0), shapes: [16, 8] } },
      want: 16,
    },
  ])("$name", ({ ledger = EIGHT_EACH, spec, room = Infinity, want }) => {
    expect(sizeOf(ledger, spec, { room })?.gpus).toBe(want);
  });

  test("is worth its GPUs times the throughput of the paper", () => {
    expect(sizeOf(READY, { gpus: 8 }, {})?.worth).toBeCloseTo(8 * 0.94, 9);
    expect(sizeOf(READY, { gpus: 1 }, {})?.worth).toBe(1);
    const apart = sizeOf(EIGHT_EACH, { gpus: 24, constraints: anywhere }, {});
    expect(apart?.worth).toBeLessThan(8 * 0.94);
  });

  test("has no floor at the levels of an idle fleet", () => {
    const spec = { gpus: 24, ...from(4, 1), constraints: anywhere };
    expect(sizeOf(EIGHT_EACH, spec, { level: "idle" })?.gpus).toBe(24);
    expect(sizeOf(EIGHT_EACH, { gpus: 73, ...from(73) }, { level: "ever" })).toBeUndefined();
  });
});

test("of two offers the one with more progress is taken, of equal ones the larger", () => {
  const [small, large, best] = [
    { gpus: 8, worth: 7 },
    { gpus: 9, worth: 7 },
    { gpus: 2, worth: 7.5 },
  ];
  expect(moreProductive(small, large)).toBe(large);
  expect(moreProductive(large, small)).toBe(large);
  expect(moreProductive(large, best)).toBe(best);
  expect(moreProductive(undefined, small)).toBe(small);
  expect(moreProductive(undefined, undefined)).toBeUndefined();
});

describe("a place that was found", () => {
  const together = gpus(["c0/h0", 0xff]);
  const apart = gpus(["c0/h0", 0x0f], ["c1/h0", 0x0f]);
  const worthIt = (spec: RequestSpec, parts = apart) => {
    const { capacity, nowMs } = viewAt(READY);
    const request = pendingRequest({ ...spec, constraints: anywhere });
    const { types } = optionsFor(capacity, request, nowMs);
    return isWorthIt(request, parts, { capacity, nowMs, types });
  };

  test("is worth it when it reaches the progress of the least size", () => {
    expect(worthIt({ gpus: 16, ...from(8) }, together)).toBe(true);
    expect(worthIt({ gpus: 16, ...from(8) })).toBe(false);
    expect(worthIt({ gpus: 16, ...from(1) })).toBe(true);
    expect(worthIt({ gpus: 8 })).toBe(true);
  });

  test("makes more progress together than apart", () => {
    const { capacity } = viewAt(READY);
    expect(gpuCountOf(together)).toBe(gpuCountOf(apart));
    expect(progressOf(together, capacity)).toBeCloseTo(8 * 0.94, 9);
    expect(progressOf(apart, capacity)).toBeLessThan(0.25 * 8);
  });
});
