import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { hostId } from "../../../domain/values/ids.ts";
import { parseBandpilotCsv } from "../../../domain/bandwidth/parse-bandpilot-csv.ts";
import { parseNvidiaSmiTopo } from "../../../domain/bandwidth/parse-nvidia-smi.ts";
import type { HostTopology } from "../../../domain/values/topology.ts";
import { isOneGpu, lookupDomain, type LookupHost } from "../../../models/bandwidth/lookup.ts";
import { median } from "../../../lib/median.ts";
import { lookOf, masksByLook, withGuesses } from "../../../models/bandwidth/symmetry-prior.ts";
import { popCount } from "../../../domain/lease/lease.ts";

const dataText = (name: string): string =>
  readFileSync(new URL(`../../../data/bandpilot/${name}`, import.meta.url), "utf8");

const measured = new Map(
  (() => {
    const parsed = parseBandpilotCsv(dataText("intra_host_16MB.csv"), { source: "intra" });
    if (parsed.kind !== "parsed") throw new Error("the project's own data does not parse");
    const { table } = parsed;
    return table.hosts.map((name, index) => [name, table.intraHost[index]] as const);
  })(),
);

function topologyOf(type: string): HostTopology {
  const parsed = parseNvidiaSmiTopo(dataText(`topology/${type}_topo.txt`), { source: type });
  if (parsed.kind !== "parsed") throw new Error(`the topology of ${type} does not parse`);
  return parsed.topology;
}

function hostOf(name: string): LookupHost {
  const table = measured.get(name);
  if (!table) throw new Error(`no table of ${name}`);
  return { id: hostId("c", name), gpuCount: 8, gpuType: name.replace(/_\d+$/, ""), table };
}

describe("lookup tables", () => {
  const domain = lookupDomain([hostOf("H100_26"), hostOf("H100_28"), hostOf("A800")]);

  test.each([
    { what: "one GPU sets no limit", host: 0, mask: 4, wantGbs: Infinity },
    { what: "a pair as measured", host: 0, mask: 192, wantGbs: 206.85 },
    {
      what: "the same pair of another host of the type as measured there",
      host: 1,
      mask: 192,
      wantGbs: 112.91,
    },
    { what: "five GPUs in a dip", host: 2, mask: 62, wantGbs: 42.6 },
    { what: "no GPU is no set", host: 0, mask: 0, wantGbs: undefined },
    { what: "more GPUs than the host has", host: 0, mask: 256, wantGbs: undefined },
    { what: "no such host", host: 3, mask: 3, wantGbs: undefined },
  ])("$what", ({ host, mask, wantGbs }) => {
    expect(domain.intraGbs(host, mask)).toBe(wantGbs);
  });

  test("a host without a table still has its single GPUs", () => {
    const bare = lookupDomain([{ id: hostId("c", "new"), gpuCount: 2, gpuType: "L4" }]);
    expect([1, 2, 3].map((mask) => bare.intraGbs(0, mask))).toEqual([
      Infinity,
      Infinity,
      undefined,
    ]);
  });
});

describe("the prior by symmetry and type", () => {
  const bare = (name: string): LookupHost => ({
    id: hostId("c", `${name}-new`),
    gpuCount: 8,
    gpuType: name,
  });

  test("guesses are marked, and give way to measurements", () => {
    const guessed = withGuesses(lookupDomain([hostOf("H100_28"), bare("H100")]));
    expect(guessed.guess(0, 192)).toBeUndefined();
    expect(guessed.intraGbs(0, 192)).toBe(112.91);
    expect(guessed.guess(1, 192)).toMatchObject({ evidence: "same-type", count: 28 });
    expect(guessed.intraGbs(1, 192)).toBeCloseTo(205.8, 1);
    expect(guessed.guess(1, 1)).toBeUndefined();
    expect(guessed.intraGbs(1, 1)).toBe(Infinity);
  });

  test("masks that look alike on the host itself are better evidence than the type", () => {
    const table = {
      gpuCount: 8,
      gbsByMask: Array.from({ length: 256 }, (_, mask) => (mask === 3 ? 50 : null)),
    };
    const partly: LookupHost = { ...bare("H100"), table };
    const guessed = withGuesses(lookupDomain([hostOf("H100_26"), partly]));
    expect(guessed.guess(1, 6)).toEqual({ gbs: 50, evidence: "same-host", count: 1 });
    expect(guessed.guess(1, 7)).toMatchObject({ evidence: "same-type" });
  });

  test("a type of which nothing was measured is not guessed", () => {
    const guessed = withGuesses(lookupDomain([hostOf("H100_26"), bare("L40")]));
    expect(guessed.guess(1, 3)).toBeUndefined();
    expect(guessed.intraGbs(1, 3)).toBeUndefined();
  });

  test("links tell masks of as many GPUs apart", () => {
    const topology = topologyOf("A6000");
    expect(lookOf(topology, 0b0011)).toBe(lookOf(topology, 0b1100));
    expect(lookOf(topology, 0b0011)).not.toBe(lookOf(topology, 0b0101));
    expect(lookOf(topologyOf("A800"), 0b0101)).toBe(lookOf(topologyOf("A800"), 0b0011));
  });

  test.each(["A800", "V100", "4090"])(
    "the order of measuring of %s has each set once, each look early",
    (type) => {
      const topology = topologyOf(type);
      const order = masksByLook(8, topology);
      expect([...order].sort((a, b) => a - b)).toEqual(
        Array.from({ length: 256 }, (_, mask) => mask).filter(
          (mask) => mask > 0 && !isOneGpu(mask),
        ),
      );
      const looks = new Set(order.map((mask) => lookOf(topology, mask)));
      expect(new Set(order.slice(0, looks.size).map((mask) => lookOf(topology, mask)))).toEqual(
        looks,
      );
    },
  );
});

/**
 * A table by symmetry has one value for all masks that look alike: here the median of what was measured of them, more than anybody
 * knows who measures one of each. Whoever picks by it takes any of the masks that it holds for best; each of them counts the same.
 */
describe("what the dips cost a table that was not measured mask by mask", () => {
  interface Cost {
    /** Bandwidth got as a share of the best, over all sets of free GPUs with a choice. */
    readonly meanShare: number;
    readonly worstShare: number;
  }

  type Table = (mask: number) => number;

  const truthOf = (name: string): Table => {
    const domain = lookupDomain([hostOf(name)]);
    return (mask) => domain.intraGbs(0, mask) ?? NaN;
  };

  /** Equal looks, equal value. */
  function symmetric(name: string): Table {
    const truth = truthOf(name);
    const topology = topologyOf(hostOf(name).gpuType);
    const byLook = new Map<string, number[]>();
    const looks = Array.from({ length: 256 }, (_, mask) => lookOf(topology, mask));
    for (const [mask, look] of looks.entries()) {
      if (mask > 0 && !isOneGpu(mask)) byLook.set(look, [...(byLook.get(look) ?? []), truth(mask)]);
    }
    const values = looks.map((look) => median(byLook.get(look) ?? [NaN]));
    return (mask) => values[mask] ?? NaN;
  }

  /** Request sizes `from` to `to` on every set of free GPUs that leaves a choice. */
  function costOf(table: Table, truth: Table, [from, to]: readonly [number, number]): Cost {
    const sizes = Array.from({ length: 256 }, (_, mask) => popCount(mask));
    let sum = 0;
    let count = 0;
    let worstShare = 1;
    for (let free = 1; free < 256; free += 1) {
      for (let gpus = from; gpus <= Math.min(to, (sizes[free] ?? 0) - 1); gpus += 1) {
        let most = -Infinity;
        let best = 0;
        let chosen: number[] = [];
        for (let mask = free; mask > 0; mask = (mask - 1) & free) {
          if (sizes[mask] !== gpus) continue;
          best = Math.max(best, truth(mask));
          const value = table(mask);
          if (value > most) chosen = [];
          most = Math.max(most, value);
          if (value === most) chosen.push(truth(mask));
        }
        sum += chosen.reduce((total, gbs) => total + gbs, 0) / chosen.length / best;
        count += 1;
        worstShare = Math.min(worstShare, Math.min(...chosen) / best);
      }
    }
    return { meanShare: sum / count, worstShare };
  }

  test.each([
    { host: "A800", gpus: [5, 5], wantMean: 0.833, wantWorst: 0.41 },
    { host: "A800", gpus: [2, 7], wantMean: 0.972, wantWorst: 0.4 },
    { host: "V100", gpus: [2, 7], wantMean: 0.995, wantWorst: 0.5 },
    { host: "A6000", gpus: [2, 7], wantMean: 0.996, wantWorst: 0.88 },
    { host: "4090", gpus: [2, 7], wantMean: 0.954, wantWorst: 0.54 },
    { host: "H100_26", gpus: [2, 7], wantMean: 0.995, wantWorst: 0.98 },
    { host: "H100_27", gpus: [2, 7], wantMean: 0.983, wantWorst: 0.54 },
    { host: "H100_29", gpus: [2, 7], wantMean: 0.981, wantWorst: 0.57 },
  ] as const)(
    "symmetry on $host, $gpus GPUs: $wantMean of the best on average, $wantWorst at worst",
    ({ host, gpus, wantMean, wantWorst }) => {
      const cost = costOf(symmetric(host), truthOf(host), gpus);
      expect(cost.meanShare).toBeCloseTo(wantMean, 3);
      expect(cost.worstShare).toBeCloseTo(wantWorst, 2);
    },
  );

  test.each([
    { host: "H100_27", wantMean: 0.944, wantWorst: 0.54 },
    { host: "H100_28", wantMean: 0.983, wantWorst: 0.55 },
    { host: "H100_29", wantMean: 0.995, wantWorst: 0.95 },
  ])(
    "the table of H100_26 on $host: $wantMean on average, $wantWorst at worst",
    ({ host, wantMean, wantWorst }) => {
      const cost = costOf(truthOf("H100_26"), truthOf(host), [2, 7]);
      expect(cost.meanShare).toBeCloseTo(wantMean, 3);
      expect(cost.worstShare).toBeCloseTo(wantWorst, 2);
    },
  );

  test("the exact table costs nothing", () => {
    const truth = truthOf("A800");
    expect(costOf(truth, truth, [2, 7])).toEqual({ meanShare: 1, worstShare: 1 });
  });
});
