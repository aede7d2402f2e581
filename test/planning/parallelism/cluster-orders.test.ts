/** @file Clusters in other orders, and layers of stages that send over slow links. */

import { describe, expect, it, test } from "vitest";
import { clusterOrders } from "../../../planning/parallelism/cluster-orders.ts";
import { unitsOf, type PlanSite } from "../../../planning/parallelism/site.ts";
import { layerSums, type Split } from "../../../planning/parallelism/split.ts";
import { levelledBounds, stageBounds } from "../../../planning/parallelism/stage-bounds.ts";
import { playedStep } from "../../../planning/parallelism/step-time.ts";
import { host, preset, siteOf } from "./sites.ts";

const inCluster = (cluster: string, gpus: number) => host(`${cluster}/h`, gpus, { cluster });

const ordersOf = (site: PlanSite): readonly string[] =>
  clusterOrders(site, unitsOf(site, 1) ?? []).map((units) =>
    [...new Set(units.map(({ host: at }) => site.hosts[at]?.cluster))].join(""),
  );

describe("clusters in other orders", () => {
  it("are none where all are alike and all links are equal", () => {
    expect(ordersOf(siteOf(inCluster("a", 4), inCluster("b", 4), inCluster("c", 4)))).toEqual([]);
    expect(ordersOf(siteOf(inCluster("a", 4)))).toEqual([]);
  });

  it("are those in which the larger one has each place", () => {
    const site = siteOf(inCluster("a", 8), inCluster("b", 4), inCluster("c", 4));
    expect(ordersOf(site)).toEqual(["bac", "bca"]);
  });

  it("are all where links differ", () => {
    const site: PlanSite = {
      ...siteOf(inCluster("a", 4), inCluster("b", 4), inCluster("c", 4)),
      between: (from, to) => ({ gbs: from + to === "ab" ? 1 : 10, latencyMs: 1 }),
    };
    expect(new Set(ordersOf(site)).size).toBe(5);
  });

  it("are none where there are too many", () => {
    const names = ["a", "b", "c", "d", "e"];
    expect(ordersOf(siteOf(...names.map((name, at) => inCluster(name, at + 1))))).toEqual([]);
  });
});

/** Two stages in each of two clusters, whose link takes about as long as two layers. */
test("stages at the ends of a slow link get fewer layers, and the step is shorter", () => {
  const site: PlanSite = {
    ...siteOf(inCluster("a", 2), inCluster("b", 2)),
    between: () => ({ gbs: 0.3, latencyMs: 0 }),
  };
  const sums = layerSums(preset("opt-6.7b"));
  const open: Omit<Split, "bounds"> = {
    ...{ width: 1, replicas: 1, stages: 4, microBatch: 1, microBatches: 32 },
    ...{ isRecomputing: false, isSharded: false, cells: unitsOf(site, 1) ?? [] },
  };
  const bounds = stageBounds(open, site, sums);
  if (bounds === undefined) throw new Error("too large");
  const plain: Split = { ...open, bounds };
  const levelled = levelledBounds(plain, site, sums);
  const layers = (split: Split): readonly number[] =>
    split.bounds.slice(1).map((to, stage) => to - (split.bounds[stage] ?? 0));
  const [first = 0, second = 0, third = 0, last = 0] = layers(levelled);
  expect(second).toBeLessThan(first);
  expect(third).toBeLessThan(last);
  const stepMs = (split: Split): number => playedStep(split, { site, sums }).totalMs;
  expect(stepMs(levelled)).toBeLessThan(0.97 * stepMs(plain));
});
