/** @file The plain policies on their own: who is next, which clusters, which GPUs. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { clusterId } from "../../domain/values/ids.ts";
import { popCount } from "../../domain/lease/lease.ts";
import { lowestIds } from "../../scheduling/pick/lowest-ids.ts";
import type { PickHost } from "../../scheduling/pick/pick-policy.ts";
import { firstFit } from "../../scheduling/placement/first-fit.ts";
import { largestGang, type ClusterOffer } from "../../scheduling/placement/placement-policy.ts";
import { fifo } from "../../scheduling/queue/fifo.ts";
import type { QueueCursor } from "../../scheduling/queue/queue-policy.ts";
import { gangRequest, gpus, host } from "./builders.ts";
import { caseCount } from "../support/case-count.ts";

function idsOf(turn: QueueCursor): readonly string[] {
  const ids: string[] = [];
  for (let request = turn.next(); request !== undefined; request = turn.next())
    ids.push(request.jobId);
  return ids;
}

describe("fifo", () => {
  const pending = (job: string, submittedAtMs: number, arrival: number, priority = 0) => ({
    ...gangRequest({ job, submittedAtMs, priority }),
    arrival,
  });
  test("priority, then submission, then arrival, then id, whatever the order of the map", () => {
    const requests = [
      pending("late", 9, 1),
      pending("b", 5, 3),
      pending("a", 5, 3),
      pending("tie-first", 5, 2),
      pending("high", 99, 9, 1),
      pending("low", 0, 0, -1),
    ];
    fc.assert(
      fc.property(fc.shuffledSubarray(requests, { minLength: requests.length }), (shuffled) => {
        const queue = fifo.open({ requests: shuffled, tenants: [] });
        expect(idsOf(queue.order(0, { runningGpus: new Map() }))).toEqual([
          "high",
          "tie-first",
          "a",
          "b",
          "late",
          "low",
        ]);
      }),
    );
  });
});

const offers: fc.Arbitrary<readonly ClusterOffer[]> = fc
  .array(
    fc.record({
      gpuType: fc.constantFrom("A", "B"),
      gpus: fc.nat(6),
      host: fc.nat(4),
      hasFabric: fc.boolean(),
    }),
    { maxLength: 5 },
  )
  .map((all) =>
    all.map(({ host: largest, ...rest }, rank) => ({
      ...rest,
      largestHostGpus: Math.min(largest, rest.gpus),
      cluster: clusterId(`c${rank}`),
      rank,
    })),
  );
const demands = fc.record({
  gpus: fc.integer({ min: 1, max: 10 }),
  maxClusters: fc.integer({ min: 1, max: 3 }),
  isSameHost: fc.boolean(),
  isSameFabric: fc.boolean(),
});

/** Every set of offers, by brute force: does any of one type hold the demand? */
function isPossible(demand: Parameters<typeof firstFit>[0], all: readonly ClusterOffer[]): boolean {
  return Array.from({ length: 2 ** all.length }, (_, set) =>
    all.filter((_offer, at) => (set & (1 << at)) !== 0),
  ).some((chosen) => {
    const most = demand.isSameHost || demand.isSameFabric ? 1 : demand.maxClusters;
    const held = chosen.reduce(
      (sum, offer) => sum + (demand.isSameHost ? offer.largestHostGpus : offer.gpus),
      0,
    );
    return (
      chosen.length <= most &&
      new Set(chosen.map(({ gpuType }) => gpuType)).size === 1 &&
      (!demand.isSameFabric || chosen.every(({ hasFabric }) => hasFabric)) &&
      held >= demand.gpus
    );
  });
}

describe("first fit", () => {
  test("places exactly when some set of clusters holds the gang, within what each offers, and prefers a single one", () => {
    fc.assert(
      fc.property(demands, offers, (demand, all) => {
        const { placement } = firstFit(demand, all);
        expect(placement !== undefined).toBe(isPossible(demand, all));
        if (placement === undefined) return;
        expect(placement.parts.reduce((sum, part) => sum + part.gpus, 0)).toBe(demand.gpus);
        for (const { cluster, gpus: count } of placement.parts) {
          const offer = all.find((each) => each.cluster === cluster);
          expect(offer?.gpuType).toBe(placement.gpuType);
          expect(count).toBeLessThanOrEqual(
            (demand.isSameHost ? offer?.largestHostGpus : offer?.gpus) ?? 0,
          );
        }
        const isSingle = isPossible({ ...demand, maxClusters: 1 }, all);
        expect(placement.parts.length === 1).toBe(isSingle);
      }),
    );
  });

  test("the largest gang of one type is the largest that can be placed", () => {
    fc.assert(
      fc.property(demands, offers, (demand, all) => {
        const ofType = all.filter(({ gpuType }) => gpuType === "A");
        const largest = largestGang(demand, ofType);
        expect(isPossible({ ...demand, gpus: largest + 1 }, ofType)).toBe(false);
        if (largest > 0) expect(isPossible({ ...demand, gpus: largest }, ofType)).toBe(true);
      }),
    );
  });
});

const hosts: fc.Arbitrary<readonly PickHost[]> = fc
  .array(
    fc.record({ freeMask: fc.integer({ min: 1, max: 15 }), gpuWatts: fc.constantFrom(1, 2, 3) }),
    { minLength: 1, maxLength: 4 },
  )
  .map((all) => all.map((rest, at) => ({ ...rest, host: host(`c0/h${at}`), gpuCount: 4 })));

describe("lowest ids", () => {
  test("finds GPUs exactly when there are enough within the watts, all of them free", () => {
    fc.assert(
      fc.property(
        hosts,
        fc.integer({ min: 1, max: 8 }),
        fc.boolean(),
        fc.nat(20),
        (all, count, isSameHost, wattsLeft) => {
          const found = lowestIds({ gpus: count, isSameHost, wattsLeft }, all, {}).gpus;
          const draws = all
            .flatMap(({ freeMask, gpuWatts }) => Array<number>(popCount(freeMask)).fill(gpuWatts))
            .sort((a, b) => a - b);
          const isPossible = isSameHost
            ? all.some(
                ({ freeMask, gpuWatts }) =>
                  popCount(freeMask) >= count && count * gpuWatts <= wattsLeft,
              )
            : draws.length >= count &&
              draws.slice(0, count).reduce((sum, draw) => sum + draw, 0) <= wattsLeft;
          expect(found !== undefined).toBe(isPossible);
          if (found === undefined) return;
          expect(found.reduce((sum, { mask }) => sum + popCount(mask), 0)).toBe(count);
          for (const part of found) {
            const free = all.find((each) => each.host === part.host)?.freeMask ?? 0;
            expect(part.mask & ~free).toBe(0);
          }
          const watts = found.reduce(
            (sum, { host: id, mask }) =>
              sum + popCount(mask) * (all.find((each) => each.host === id)?.gpuWatts ?? 0),
            0,
          );
          expect(watts).toBeLessThanOrEqual(wattsLeft);
          expect([...found].map((part) => part.host)).toEqual(
            [...found].map((part) => part.host).sort(),
          );
        },
      ),
      { numRuns: caseCount(400) },
    );
  });

  test.each([
    {
      name: "the first host that holds all of it",
      free: [0b0011, 0b1111],
      count: 3,
      want: gpus(["c0/h1", 0b0111]),
    },
    {
      name: "host after host when none does",
      free: [0b0011, 0b1110],
      count: 4,
      want: gpus(["c0/h0", 0b0011], ["c0/h1", 0b0110]),
    },
  ])("takes $name", ({ free, count, want }) => {
    const all = free.map((freeMask, at) => ({
      host: host(`c0/h${at}`),
      freeMask,
      gpuCount: 4,
      gpuWatts: 1,
    }));
    expect(
      lowestIds({ gpus: count, isSameHost: false, wattsLeft: Infinity }, all, {}).gpus,
    ).toEqual(want);
  });
});
