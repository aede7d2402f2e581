import { describe, expect, test } from "vitest";
import {
  candidateOf,
  countsKey,
  h100Truth,
  HET_KINDS,
  hetTruth,
} from "../../../bench/pick/truth.ts";
import { readTruthData, truthData } from "../../../bench/pick/truth-data.ts";
import { randomFrom } from "../../../lib/random.ts";

const data = readTruthData();
const h100 = h100Truth(data);

describe("the measured H100 cluster", () => {
  test("has four hosts of eight GPUs with their own tables", () => {
    expect(h100.domain.hosts.map(({ id, gpuCount, gpuType }) => [id, gpuCount, gpuType])).toEqual([
      ["h100/H100_26", 8, "H100"],
      ["h100/H100_27", 8, "H100"],
      ["h100/H100_28", 8, "H100"],
      ["h100/H100_29", 8, "H100"],
    ]);
  });

  test.each([
    { what: "one GPU has no limit", masks: [0, 4, 0, 0], wantGbs: Infinity },
    { what: "one host is looked up", masks: [3, 0, 0, 0], wantGbs: 206.5 },
    { what: "a slow pair of another host", masks: [0, 0, 192, 0], wantGbs: 112.91 },
    { what: "two hosts as measured", masks: [1, 1, 0, 0], wantGbs: 38.47 },
    { what: "other hosts with the same counts", masks: [0, 0, 16, 2], wantGbs: 38.47 },
    { what: "twice measured: the mean", masks: [255, 3, 0, 0], wantGbs: (75.11 + 65.1) / 2 },
    { what: "the counts the other way round", masks: [0, 3, 0, 255], wantGbs: (75.11 + 65.1) / 2 },
  ])("$what", ({ masks, wantGbs }) => {
    expect(h100.gbs(candidateOf(masks))).toBeCloseTo(wantGbs, 6);
  });

  test("covers every multiset of counts over two to four hosts, 19 of them twice", () => {
    expect(h100.samples).toHaveLength(505);
    const keys = h100.samples.map(({ shares }) => countsKey(shares));
    expect(new Set(keys).size).toBe(486);
    expect(h100.draw(1_000, randomFrom(1))).toHaveLength(486);
  });

  test("a draw never has one multiset twice, and the same seed draws the same", () => {
    const drawn = h100.draw(250, randomFrom(7));
    expect(new Set(drawn.map(({ shares }) => countsKey(shares))).size).toBe(250);
    expect(h100.draw(250, randomFrom(7))).toEqual(drawn);
    expect(h100.draw(250, randomFrom(8))).not.toEqual(drawn);
  });
});

describe("the mixed clusters", () => {
  test.each([
    { kind: "Het-4Mix", wantTypes: ["4090", "V100", "A6000", "A800"] },
    { kind: "Het-RA", wantTypes: ["4090", "4090", "A800", "A800"] },
    { kind: "Het-VA", wantTypes: ["V100", "V100", "A6000", "A6000"] },
  ] as const)("$kind has $wantTypes", ({ kind, wantTypes }) => {
    const truth = hetTruth(kind, data);
    expect(truth?.domain.hosts.map(({ gpuType }) => gpuType)).toEqual(wantTypes);
    expect(new Set(truth?.domain.hosts.map(({ id }) => id)).size).toBe(4);
  });

  test("a set over hosts is as fast as its slowest host or a quarter of the H100 fabric", () => {
    const truth = hetTruth("Het-4Mix", data);
    const drawn = truth?.draw(600, randomFrom(3)) ?? [];
    expect(drawn).toHaveLength(600);
    for (const { shares, gbs } of drawn) {
      const inside = shares.map(({ host, mask }) => truth?.domain.intraGbs(host, mask) ?? NaN);
      const fabric = h100.gbs(candidateOf(shares.map(({ mask }) => mask))) ?? NaN;
      expect(shares.length).toBeGreaterThan(1);
      expect(gbs).toBeCloseTo(Math.min(...inside, fabric / 4), 9);
    }
    const limits = drawn.map(({ shares, gbs }) =>
      shares.some(({ host, mask }) => truth?.domain.intraGbs(host, mask) === gbs),
    );
    expect(new Set(limits)).toEqual(new Set([true, false]));
  });

  test("the fabric alone limits one GPU on each of two hosts", () => {
    for (const kind of HET_KINDS) {
      expect(hetTruth(kind, data)?.gbs(candidateOf([1, 0, 8, 0]))).toBeCloseTo(38.47 / 4, 6);
    }
  });
});

describe("other data of the same formats", () => {
  const intra = (hosts: readonly string[]): string =>
    `host,mask,gpus,n_gpus,bandwidth_gbs\n${hosts
      .map((host) => `${host},1,0,1,0.0\n${host},2,1,1,0.0\n${host},3,0+1,2,200.5\n`)
      .join("")}`;
  const inter = (hosts: readonly string[]): string =>
    `op,n_gpus,n_hosts,gpus,${hosts.map((host) => `mask_${host}`).join(",")},bytes,bandwidth_gbs\n` +
    "all_gather_perf,2,2,0/0,1,1,16777216,40.5\n";
  const named = (name: string, text: string): { name: string; text: string } => ({ name, text });

  test.each([
    { what: "equal names", ofIntra: ["b", "a"], ofInter: ["a", "b"], want: ["a", "b"] },
    {
      what: "numbers at the end",
      ofIntra: ["B200_7", "B200_9", "L40"],
      ofInter: ["h9", "h7"],
      want: ["B200_9", "B200_7"],
    },
    {
      what: "the order among hosts of one type",
      ofIntra: ["L40", "B200_7", "B200_9"],
      ofInter: ["x", "y"],
      want: ["B200_7", "B200_9"],
    },
  ])("hosts are matched by $what", ({ ofIntra, ofInter, want }) => {
    const read = truthData(named("i.csv", intra(ofIntra)), named("x.csv", inter(ofInter)));
    expect(read.fabricHosts.map(({ name }) => name)).toEqual(want);
  });

  test("hosts that cannot be matched are named in one error", () => {
    expect(() =>
      truthData(named("i.csv", intra(["a", "b", "c"])), named("x.csv", inter(["p", "q"]))),
    ).toThrow(/x\.csv is over hosts p, q, i\.csv has a, b, c/);
  });

  test("a mixed cluster of types that the data lacks does not exist", () => {
    const read = truthData(named("i.csv", intra(["a", "b"])), named("x.csv", inter(["a", "b"])));
    expect(hetTruth("Het-RA", read)).toBeUndefined();
  });
});
