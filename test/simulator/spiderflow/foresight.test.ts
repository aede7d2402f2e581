/** @file When the first in line starts, and where: by the end of its run, against every set and every moment. */
import { describe, expect, test } from "vitest";
import { randomFrom } from "../../../lib/random.ts";
import { bestClusters } from "../../../scheduling/placement/best-clusters.ts";
import type { ClusterChoice } from "../../../scheduling/placement/cluster-policy.ts";
import { addLoad, bottleneckOf, linksOf } from "../../../scheduling/placement/link-graph.ts";
import { foresee, type Departure } from "../../../simulator/spiderflow/foresight.ts";
import { roomOf } from "../../scheduling/placement/clusters.ts";

const LEAST_RUN_MS = 100;

interface Held {
  readonly endMs: number;
  readonly clusters: readonly number[];
  readonly gpus: readonly number[];
}

/** Four clusters in a row; what is held is taken off, links included. */
function roomWith(sizes: readonly [number, number, number, number], held: readonly Held[]) {
  const [a, b, c, d] = sizes;
  const room = roomOf({ a, b, c, d }, [
    { between: "ab", gbps: 8 },
    { between: "bc", gbps: 2 },
    { between: "cd", gbps: 4 },
  ]);
  const departures = held.map(({ endMs, clusters, gpus }): Departure => {
    const links = linksOf(room.links, clusters);
    addLoad(room.links, links, 1);
    for (const [at, cluster] of clusters.entries())
      room.free[cluster] = (room.free[cluster] ?? 0) - (gpus[at] ?? 0);
    return { endMs, choice: { clusters, gpus }, links };
  });
  const runMsOf = ({ clusters }: ClusterChoice): number => {
    const gbps = bottleneckOf(room.links, clusters);
    return LEAST_RUN_MS * (1 + (clusters.length - 1) * (gbps === Infinity ? 0 : 8 / gbps));
  };
  const ask = (gpus: number, nowMs = 0) => {
    const rest = [...departures];
    return foresee({
      wish: { gpus, maxClusters: 4 },
      room,
      policy: bestClusters,
      nowMs,
      leastRunMs: LEAST_RUN_MS,
      runMsOf,
      departures: () => rest.shift(),
    });
  };
  return { room, ask, runMsOf };
}

describe("the first in line", () => {
  test.each([
    {
      what: "starts at once in one cluster, whatever ends soon",
      sizes: [4, 2, 2, 2],
      held: [{ endMs: 1, clusters: [1], gpus: [2] }],
      wantWaitMs: 0,
      wantClusters: [0],
    },
    {
      what: "waits for one cluster that is free soon",
      sizes: [4, 2, 2, 2],
      held: [{ endMs: 10, clusters: [0], gpus: [4] }],
      wantWaitMs: 10,
      wantClusters: [0],
    },
    {
      what: "starts over a link when one cluster comes free too late",
      sizes: [4, 2, 2, 2],
      held: [{ endMs: 5_000, clusters: [0], gpus: [4] }],
      wantWaitMs: 0,
      wantClusters: [2, 3],
    },
  ] as const)("$what", ({ sizes, held, wantWaitMs, wantClusters }) => {
    const found = roomWith(sizes, held).ask(4);
    expect(found?.waitMs).toBe(wantWaitMs);
    expect([...(found?.choice.clusters ?? [])].sort()).toEqual(wantClusters);
  });

  test("has no answer while nothing holds it", () => {
    const { ask } = roomWith([2, 2, 2, 2], [{ endMs: 9, clusters: [0, 1], gpus: [2, 2] }]);
    expect(ask(8)).toBeUndefined();
  });

  test("never ends later than with the method's own set now, and leaves the room as it was", () => {
    const random = randomFrom(1, "rooms");
    let waited = 0;
    for (let turn = 0; turn < 300; turn += 1) {
      const held = Array.from({ length: 1 + random.below(3) }, (_, at): Held => {
        const first = random.below(3);
        return {
          endMs: 20 * (at + 1) + random.below(20),
          clusters: [first, first + 1],
          gpus: [1, 1],
        };
      });
      const { room, ask, runMsOf } = roomWith([4, 4, 6, 4], held);
      const gpus = 2 + random.below(8);
      const before = [[...room.free], [...room.links.gangs], [...room.links.shareGbps]];
      const own = bestClusters({ gpus, maxClusters: 4 }, room).choice;
      const ownMs = own === undefined ? Infinity : runMsOf(own);
      const found = ask(gpus);
      expect([[...room.free], [...room.links.gangs], [...room.links.shareGbps]]).toEqual(before);
      expect(found === undefined).toBe(own === undefined);
      if (found === undefined) continue;
      expect(found.choice.gpus.reduce((sum, each) => sum + each, 0)).toBe(gpus);
      if (found.waitMs === 0) expect(runMsOf(found.choice)).toBeLessThanOrEqual(ownMs);
      else {
        waited += 1;
        expect(held.some(({ endMs }) => endMs === found.waitMs)).toBe(true);
        expect(found.waitMs + LEAST_RUN_MS).toBeLessThan(ownMs);
      }
    }
    expect(waited).toBeGreaterThan(0);
  });
});
