/** @file Bounds on places by counts: what a gang that may lie over several clusters leaves to another. */
import { describe, expect, test } from "vitest";
import { jobId } from "../../../domain/values/ids.ts";
import type { PendingRequest } from "../../../domain/lease/plan.ts";
import type { CycleView } from "../../../scheduling/admission/feasibility.ts";
import {
  mostThroughput,
  mostWorthIn,
  placementBounds,
} from "../../../scheduling/preemption/placement-bounds.ts";
import { bestThroughput } from "../../../scheduling/placement/spread.ts";
import type { Ledger } from "../../../scheduling/ledger/ledger.ts";
import {
  ask,
  fleetShape,
  gpus,
  inbox,
  leased,
  readyLedger,
  type RequestSpec,
} from "../builders.ts";
import { viewOf } from "../preempting.ts";

/** Two sites of 16 GPUs. */
const SHAPE = fleetShape([{ hosts: [{}, {}] }, { hosts: [{}, {}] }]);

interface Asked {
  readonly view: CycleView;
  readonly of: (job: string) => PendingRequest;
}

const asking = (...specs: readonly RequestSpec[]): Asked => askingIn(readyLedger(SHAPE), ...specs);

function askingIn(before: Ledger, ...specs: readonly RequestSpec[]): Asked {
  const { ledger } = inbox(before, specs.map(ask), 0);
  const { view } = viewOf(ledger, 0);
  const of = (job: string): PendingRequest => {
    const request = ledger.requests.get(jobId(job));
    if (request === undefined) throw new Error(`${job} does not wait`);
    return request;
  };
  return { view, of };
}

const anywhere = (job: string, gpus: number): RequestSpec => ({
  job,
  gpus,
  constraints: { maxClusters: 2 },
});
const inOne = (job: string, gpus: number): RequestSpec => ({
  job,
  gpus,
  constraints: { maxClusters: 1 },
});

describe("a gang over several clusters", () => {
  test.each([
    { gpus: 8, sets: [1, 1, 2] },
    { gpus: 16, sets: [1, 1, 2] },
    { gpus: 17, sets: [2] },
    { gpus: 33, sets: [] },
  ])("of $gpus GPUs may lie in sets of $sets clusters of 16", ({ gpus, sets }) => {
    const { view, of } = asking(anywhere("w", gpus));
    expect(placementBounds(of("w"), view).map(({ place }) => place.length)).toEqual(sets);
  });

  test.each([
    { gpus: 16, other: 16, want: true, why: "it leaves one cluster whole" },
    { gpus: 20, other: 12, want: true, why: "all that it leaves may lie in one cluster" },
    { gpus: 20, other: 13, want: false, why: "no cluster can have more left than both together" },
  ])("of $gpus leaves $other in one cluster: $want, because $why", ({ gpus, other, want }) => {
    const { view, of } = asking(anywhere("w", gpus), inOne("o", other));
    const fits = placementBounds(of("w"), view).map(
      ({ place }) => mostThroughput(of("o"), view, { place, gpus }) !== undefined,
    );
    expect(fits.some(Boolean)).toBe(want);
  });
});

test("what a gang is worth at best falls where only two clusters together have room for it", () => {
  const gang = anywhere("w", 16);
  const free = asking(gang);
  expect(mostWorthIn(free.of("w"), 16, free.view).map(({ worth }) => worth)).toEqual([
    16 * bestThroughput(16),
  ]);
  const taken = [gpus(["c0/h0", 0xff]), gpus(["c1/h0", 0xff])].reduce(
    (ledger, parts, at) => leased(ledger, { job: `r${String(at)}`, gpus: 8 }, parts),
    readyLedger(SHAPE),
  );
  const scattered = askingIn(taken, gang);
  const [most] = mostWorthIn(scattered.of("w"), 16, scattered.view);
  expect(most?.worth).toBeLessThan(16 * bestThroughput(16));
  expect(mostWorthIn(scattered.of("w"), 17, scattered.view)).toEqual([]);
});
