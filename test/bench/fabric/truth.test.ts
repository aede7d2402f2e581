/** @file The truth at scale: flows of collectives on a fabric's links, its file, and its distance from the learner. */

import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { calibration, PUBLIC_FIGURES } from "../../../bench/fabric/calibration.ts";
import { gangOf, treeEdges, type FabricSet } from "../../../bench/fabric/collective.ts";
import { parseFabricFile, type FabricSpec } from "../../../bench/fabric/fabric-file.ts";
import { buildCluster } from "../../../bench/fabric/fabric.ts";
import { aloneGbs, fairGbs } from "../../../bench/fabric/fair-rates.ts";
import { fabricTruth } from "../../../bench/fabric/truth.ts";
import { reach, ROOT, sources } from "../../structure/sources.ts";

const FABRICS = path.join(ROOT, "data/fabrics");
const names = readdirSync(FABRICS).map((name) => name.replace(/\.yaml$/, ""));
const textOf = (name: string): string => readFileSync(path.join(FABRICS, `${name}.yaml`), "utf8");

function specOf(name: string): FabricSpec {
  const parsed = parseFabricFile(textOf(name), { file: `${name}.yaml` });
  if (parsed.kind !== "parsed") throw new Error(JSON.stringify(parsed));
  return parsed.spec;
}

const SOUND: FabricSpec = {
  name: "sound",
  gpuType: "H100",
  host: { gpus: 8, cards: 8, cardGbs: 50, insideGbs: 1_000 },
  leaf: { hosts: 4, wiring: "rails", uplinks: 4, uplinkGbs: 50 },
  paths: "even",
  collective: { channels: 16, treeShare: 1, messageMiB: 1_024, insideUs: 0, betweenUs: 0 },
  slowCards: { share: 0, to: 1 },
  uplinkFaults: { down: 0, slow: 0, to: 1 },
  neighbours: { share: 1 },
};

const hosts = (from: number, count: number, mask = 255): FabricSet =>
  Array.from({ length: count }, (_, at) => ({ host: from + at, mask }));

describe("the truth and the learner", () => {
  const inTruth = sources.filter(({ file }) => file.startsWith("bench/fabric/"));
  const isLearner = (file: string): boolean =>
    /^(models|scheduling|planning|tuning|simulator|activities|bench\/pick)\//.test(file) ||
    file.startsWith("domain/bandwidth/");

  it("import nothing of each other, by whatever way", () => {
    expect(inTruth.length).toBeGreaterThan(4);
    expect([...reach(inTruth, () => true)].filter(isLearner)).toEqual([]);
    const learner = sources.filter(({ file }) => isLearner(file) && !file.startsWith("bench/"));
    const reached = [...reach(learner, () => true)];
    expect(reached.filter((file) => file.startsWith("bench/fabric/"))).toEqual([]);
  });
});

describe("a collective on a fabric", () => {
  const cluster = buildCluster(SOUND, { gpus: 128, seed: 1 });
  const truth = fabricTruth(cluster);

  it.each([
    { title: "eight cards below one leaf switch", set: hosts(0, 4), wantGbs: 400 },
    {
      title: "as many cards as the host with fewest has",
      set: [...hosts(0, 3), ...hosts(3, 1, 3)],
      wantGbs: 100,
    },
    { title: "one GPU on each host", set: hosts(0, 4, 1), wantGbs: 50 },
    { title: "one host", set: hosts(0, 1), wantGbs: 1_000 },
  ])("reaches $wantGbs GB/s with $title", ({ set, wantGbs }) => {
    // The ring's, and without latency trees are no faster from three hosts on but for the 2(n − 1)/n of the edges.
    expect(aloneOrInside(set)).toBeCloseTo(wantGbs, 6);
  });

  function aloneOrInside(set: FabricSet): number {
    const gang = gangOf(cluster, set);
    return gang.channels === 0 ? truth.gbs(set) : aloneGbs(cluster, gang.ring());
  }

  it("is held up by one slow card", () => {
    const slow = { ...cluster, capacity: Float64Array.from(cluster.capacity) };
    slow.capacity[slow.links.out(2, 5)] = 10;
    expect(fabricTruth(slow).gbs(hosts(0, 4))).toBeLessThan(0.3 * truth.gbs(hosts(0, 4)));
    expect(fabricTruth(slow).gbs(hosts(4, 4))).toBe(truth.gbs(hosts(4, 4)));
  });

  it("shares links fairly with a neighbour, and takes what the neighbour does not want", () => {
    const gang = gangOf(cluster, hosts(0, 4));
    const own = { load: gang.ring(), channels: gang.channels, wantedPace: Infinity };
    const greedy = { ...own };
    expect(fairGbs(cluster, own, [greedy])).toBeCloseTo(200, 6);
    expect(fairGbs(cluster, own, [{ ...own, wantedPace: 10 }])).toBeCloseTo(320, 6);
    expect(fairGbs(cluster, own, [greedy, greedy, { ...own, wantedPace: 5 }])).toBeCloseTo(120, 6);
  });

  it("has trees in which each island but the root has a parent, and both trees span all", () => {
    for (const count of [2, 3, 7, 16, 33]) {
      const edges = treeEdges(count);
      expect(edges.length).toBe(4 * (count - 1));
      const reached = new Set([0]);
      for (let round = 0; round < count; round += 1)
        for (const [a, b] of edges) if (reached.has(b)) reached.add(a);
      expect(reached.size).toBe(count);
    }
  });

  it("joins the hosts of an NVLink domain into one island", () => {
    const nvl72 = buildCluster(specOf("nvl72-infiniband"), { gpus: 288, seed: 3 });
    expect(gangOf(nvl72, hosts(0, 18, 15)).islands).toBe(1);
    expect(gangOf(nvl72, hosts(9, 18, 15)).islands).toBe(2);
  });

  it("never gets faster by a neighbour, and never takes more than a link has", () => {
    const built = names.map((name) => buildCluster(specOf(name), { gpus: 256, seed: 7 }));
    fc.assert(
      fc.property(
        fc.constantFrom(...built),
        fc.uniqueArray(fc.nat(31), { minLength: 2, maxLength: 20 }),
        fc.uniqueArray(fc.nat(31), { minLength: 2, maxLength: 8 }),
        (on, mine, others) => {
          const setOf = (chosen: readonly number[]): FabricSet =>
            [...chosen].sort((a, b) => a - b).map((host) => ({ host, mask: 3 }));
          const all = fabricTruth(on);
          const alone = all.gbs(setOf(mine));
          const neighbour = all.neighbour(setOf(others));
          const beside = all.gbs(setOf(mine), neighbour === undefined ? [] : [neighbour]);
          expect(alone).toBeGreaterThan(0);
          expect(beside).toBeLessThanOrEqual(alone * (1 + 1e-6));
          const gang = gangOf(on, setOf(mine));
          if (gang.channels === 0) return;
          const { byLink, links } = gang.ring();
          const gbs = aloneGbs(on, gang.ring());
          for (const link of links)
            expect((byLink[link] ?? 0) * gbs).toBeLessThanOrEqual(
              (on.capacity[link] ?? 0) * (1 + 1e-9),
            );
        },
      ),
      { numRuns: 60 },
    );
  });

  it("differs between seeds, and not between builds of one seed", () => {
    const spec = specOf("leaf-spine");
    const build = (seed: number) => buildCluster(spec, { gpus: 256, seed }).capacity;
    expect(build(1)).toEqual(build(1));
    expect(build(1)).not.toEqual(build(2));
  });
});

describe("calibration", () => {
  it("knows a fabric for each public figure, and is within 6 % where messages are large", () => {
    for (const { fabric } of PUBLIC_FIGURES) expect(names).toContain(fabric);
    const large = names
      .flatMap((name) => calibration(specOf(name)))
      .filter(({ what, unit }) => unit === "GB/s" && !/ 16 MiB$/.test(what));
    expect(large.length).toBe(13);
    for (const { truth, measured } of large)
      expect(Math.abs(truth / measured - 1)).toBeLessThan(0.06);
  });
});

describe("the file of a fabric", () => {
  it.each(names)("%s is read", (name) => {
    expect(specOf(name).name).toBe(name);
  });

  it.each([
    { title: "an unknown key", from: "uplinks: 32", to: "uplink: 32", want: "uplink" },
    {
      title: "a range that ends below its start",
      from: "[42, 47]",
      to: "[47, 42]",
      want: "[42, 47]",
    },
    { title: "a share above 0.9", from: "[0.01, 0.03]", to: "[0.01, 3]", want: "share" },
  ])("is refused with place and remedy for $title", ({ from, to, want }) => {
    const parsed = parseFabricFile(textOf("leaf-spine").replace(from, to), { file: "f.yaml" });
    expect(parsed.kind).toBe("refused");
    const [problem] = parsed.kind === "refused" ? parsed.problems : [];
    expect(problem?.line).toBeGreaterThan(0);
    expect(JSON.stringify(problem)).toContain(want);
  });
});
