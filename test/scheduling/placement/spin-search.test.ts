/** @file SpinSearch: the paper's example step by step, its two figures, and the reading that it is not. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { bestClusters } from "../../../scheduling/placement/best-clusters.ts";
import {
  compareScores,
  scoreChoice,
  type ClusterChoice,
  type ClusterPolicy,
  type ClusterRoom,
  type ClusterDemand,
} from "../../../scheduling/placement/cluster-policy.ts";
import { spinSearch, spinSearchBy } from "../../../scheduling/placement/spin-search.ts";
import { spinSearchLiteral } from "../../../bench/rivals/placement/spin-search-literal.ts";
import { anyRoom, LETTERS, namesOf, roomOf, type TestLink } from "./clusters.ts";

const A = 0;
const answer = (
  policy: ClusterPolicy,
  demand: Partial<ClusterDemand>,
  room: ClusterRoom,
): string => {
  const { choice } = policy({ gpus: 16, maxClusters: 99, ...demand }, room);
  return (choice?.clusters ?? [])
    .map((cluster, at) => `${LETTERS.charAt(cluster)}${String(choice?.gpus[at])}`)
    .join(" ");
};

describe("table 1 and figure 2", () => {
  /** Lower latency means higher bandwidth, as the paper says of its figure. */
  const link = (between: string, latencyMs: number): TestLink => ({
    between,
    latencyMs,
    gbps: 10 / latencyMs,
  });
  const room = roomOf({ a: 4, b: 4, c: 4, d: 4, e: 12, f: 8, g: 12 }, [
    link("ab", 1),
    link("bc", 1),
    link("cd", 1),
    link("ae", 7),
    link("ef", 2),
    link("ag", 1),
  ]);
  const trajectories = [
    { clusters: [0, 1, 2, 3], gpus: [4, 4, 4, 4], wantNodes: 4, wantLatencyMs: 3 },
    { clusters: [0, 4], gpus: [4, 12], wantNodes: 2, wantLatencyMs: 7 },
    { clusters: [0, 6], gpus: [4, 12], wantNodes: 2, wantLatencyMs: 1 },
  ];
  const latencyOf = ({ clusters }: ClusterChoice): number =>
    clusters
      .slice(1)
      .reduce(
        (sum, to, at) =>
          sum +
          (room.links.graph.latencyMs[(clusters[at] ?? 0) * room.links.graph.count + to] ?? 0),
        0,
      );

  test.each(trajectories)(
    "over $clusters: $wantNodes clusters, latency $wantLatencyMs",
    (trajectory) => {
      expect(scoreChoice(trajectory, room).clusters).toBe(trajectory.wantNodes);
      expect(latencyOf(trajectory)).toBe(trajectory.wantLatencyMs);
    },
  );

  test("the third trajectory is the best, then the second, and both searches take it", () => {
    const scores = trajectories.map((each) => scoreChoice(each, room));
    expect(
      scores
        .map((each, at) => [each, at] as const)
        .sort(([a], [b]) => compareScores(a, b))
        .map(([, at]) => at),
    ).toEqual([2, 1, 0]);
    expect(answer(spinSearch, { home: A }, room)).toBe("a4 g12");
    expect(namesOf(bestClusters({ gpus: 16, maxClusters: 9 }, room).choice?.clusters)).toBe("ag");
  });
});

/** Figure 4: a is home and has 4, g has most, nobody holds the twelve that are left; b is the best way from g. */
const FIGURE_4 = roomOf({ a: 4, b: 4, c: 4, d: 4, e: 6, f: 2, g: 8 }, [
  { between: "ab", gbps: 10 },
  { between: "ac", gbps: 8 },
  { between: "ad", gbps: 6 },
  { between: "ae", gbps: 4 },
  { between: "ag", gbps: 9 },
  { between: "bg", gbps: 9 },
  { between: "ef", gbps: 1 },
]);

describe("the order of §4.1.4", () => {
  test("figure 4: all of home, all of its largest neighbour, and the best way on: a, b, g", () => {
    expect(answer(spinSearch, { home: A }, FIGURE_4)).toBe("a4 g8 b4");
  });

  test.each([
    { step: "home, where it holds the gang", gpus: 4, want: "a4" },
    { step: "one cluster, most incident bandwidth first", gpus: 5, want: "g5" },
    { step: "all of home and one other", gpus: 12, want: "a4 g8" },
    {
      step: "the hop that holds the rest, else as many as it takes",
      gpus: 19,
      want: "a4 g8 b4 c3",
    },
    { step: "hops of hops", gpus: 32, want: "a4 g8 b4 c4 d4 e6 f2" },
    { step: "nothing, when the fleet is too small", gpus: 33, want: "" },
  ])("$step", ({ gpus, want }) => {
    expect(answer(spinSearch, { gpus, home: A }, FIGURE_4)).toBe(want);
  });

  test("without a home the largest cluster is where hops begin", () => {
    expect(answer(spinSearch, { gpus: 12 }, FIGURE_4)).toBe("g8 a4");
  });

  test("a home that has nothing to give is not opened", () => {
    const room = roomOf({ a: 0, b: 2, c: 3 }, [
      { between: "ab", gbps: 1 },
      { between: "bc", gbps: 1 },
    ]);
    expect(answer(spinSearch, { gpus: 5, home: A }, room)).toBe("b2 c3");
  });

  test("a cluster that no link joins is not put beside others", () => {
    const room = roomOf({ a: 2, b: 2, c: 2 }, [{ between: "ab", gbps: 1 }]);
    expect(answer(spinSearch, { gpus: 4, home: 2 }, room)).toBe("");
    expect(answer(spinSearch, { gpus: 4, home: A }, room)).toBe("a2 b2");
    expect(answer(spinSearch, { gpus: 2, home: 2 }, room)).toBe("c2");
  });

  test("ranked by the widest path from home, the same example has the same end", () => {
    expect(answer(spinSearchBy({ rankBy: "widest" }), { home: A }, FIGURE_4)).toBe("a4 g8 b4");
  });

  test("no more clusters than are allowed", () => {
    expect(answer(spinSearch, { gpus: 16, home: A, maxClusters: 2 }, FIGURE_4)).toBe("");
  });
});

describe("§4.1.2 and §4.1.3 word for word", () => {
  test("cut a gang of five in two where one cluster holds it", () => {
    expect(answer(spinSearchLiteral, { home: A }, FIGURE_4)).toBe("a4 b4 g8");
    expect(answer(spinSearchLiteral, { gpus: 5, home: A }, FIGURE_4)).toBe("a4 b1");
  });

  test("never expand hops with success when all clusters reach each other", () => {
    fc.assert(
      fc.property(anyRoom(10), fc.integer({ min: 1, max: 60 }), (room, gpus) => {
        fc.pre(room.links.graph.part.every((part) => part === 0));
        const { choice } = spinSearchLiteral({ gpus, maxClusters: 99 }, room);
        const fleet = room.free.reduce((sum, own) => sum + own, 0);
        expect(choice !== undefined).toBe(fleet >= gpus);
      }),
    );
  });
});

test.each([
  ["of the example", spinSearch],
  ["word for word", spinSearchLiteral],
])("SpinSearch %s gives whole gangs out of what is free", (_, policy) => {
  fc.assert(
    fc.property(
      anyRoom(12),
      fc.integer({ min: 1, max: 60 }),
      fc.option(fc.nat(11), { nil: undefined }),
      (room, gpus, place) => {
        const home = place === undefined ? undefined : place % room.free.length;
        const { choice } = policy(
          { gpus, maxClusters: 99, ...(home !== undefined && { home }) },
          room,
        );
        if (choice === undefined) return;
        expect(choice.gpus.reduce((sum, own) => sum + own, 0)).toBe(gpus);
        expect(new Set(choice.clusters).size).toBe(choice.clusters.length);
        for (const [at, cluster] of choice.clusters.entries()) {
          expect(choice.gpus[at]).toBeGreaterThan(0);
          expect(choice.gpus[at]).toBeLessThanOrEqual(room.free[cluster] ?? 0);
        }
        expect(scoreChoice(choice, room).bottleneckGbps).toBeGreaterThan(0);
      },
    ),
  );
});
