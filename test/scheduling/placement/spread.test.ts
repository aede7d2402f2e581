/** @file What the spread of a gang costs: the paper's figures and larger gangs. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { popCount } from "../../../domain/lease/lease.ts";
import {
  costOf,
  LEVELS,
  leastParts,
  openSpread,
  partWeights,
  throughputOf,
} from "../../../scheduling/placement/spread.ts";
import { gpus } from "../builders.ts";
import { fleetOf, HALVES } from "./fleets.ts";

/** Two racks of four hosts in a cluster; a cluster beside it in the same site, and one in another. */
const fleet = fleetOf([
  { cluster: "c0", rack: "r0", hosts: 4 },
  { cluster: "c0", rack: "r1", hosts: 4 },
  { cluster: "c1", rack: "r0", hosts: 4 },
  { site: "s1", cluster: "c2", rack: "r0", hosts: 4 },
  { cluster: "halved", rack: "r9", hosts: 2, kind: { gpuType: "PAIR", ...HALVES } },
]);
const spread = openSpread(fleet);
const all = 0b11111111;
const whole = (count: number, first = 0, cluster = "c0") =>
  Array.from({ length: count }, (_, at) => [`${cluster}/h${String(first + at)}`, all] as const);

describe("throughput by spread", () => {
  test.each([
    { name: "one GPU does not communicate", on: gpus(["c0/h0", 1]), want: 1 },
    { name: "8 in one domain", on: gpus(["c0/h0", all]), want: 0.94 },
    { name: "2 in one domain", on: gpus(["c0/h0", 3]), want: 0.94 },
    { name: "8 in two domains, of two hosts", on: gpus(["c0/h0", 15], ["c0/h1", 15]), want: 0.62 },
    { name: "8 in two domains of one host", on: gpus(["halved/h0", all]), want: 0.62 },
    { name: "4 in one of two domains", on: gpus(["halved/h0", 0b11110000]), want: 0.94 },
    { name: "8 over two racks", on: gpus(["c0/h0", 15], ["c0/h4", 15]), want: 0.34 },
    { name: "8 over two clusters", on: gpus(["c0/h0", 15], ["c1/h0", 15]), want: 0.22 },
    { name: "8 over two sites", on: gpus(["c0/h0", 15], ["c2/h0", 15]), want: 0.16 },
    { name: "32 on a rack of four hosts", on: gpus(...whole(4)), want: 0.94 },
    { name: "64 on the eight hosts of two racks", on: gpus(...whole(8)), want: 0.94 },
    {
      name: "16 on four hosts of a rack, twice the domains that it needs",
      on: gpus(...whole(4).map(([name]) => [name, 15] as const)),
      want: 0.62,
    },
    {
      name: "16 on four hosts of two racks",
      on: gpus(...whole(4, 2).map(([name]) => [name, 15] as const)),
      want: 0.34,
    },
    {
      name: "24 on four hosts, a third more than it needs",
      on: gpus(...whole(4).map(([name]) => [name, 0b111111] as const)),
      want: 0.8,
    },
    { name: "GPUs of a host that the fleet does not have", on: gpus(["gone/h0", all]), want: 1 },
  ])("$name: $want of peak", ({ on, want }) => {
    expect(throughputOf(on, spread)).toBeCloseTo(want, 2);
    expect(throughputOf(on, spread)).toBeCloseTo(1 / (1 + costOf(on, spread)), 12);
  });

  test("the paper's figures are exact where a host is a domain", () => {
    expect(throughputOf(gpus(["c0/h0", all]), spread)).toBeCloseTo(0.94, 12);
    expect(throughputOf(gpus(["c0/h0", 15], ["c0/h1", 15]), spread)).toBeCloseTo(0.62, 12);
    expect(throughputOf(gpus(["c0/h0", 15], ["c0/h4", 15]), spread)).toBeCloseTo(0.34, 12);
  });

  test("no gang beats the best spread of its size, and the parts' weights are the slope of the cost", () => {
    const hosts = [...spread.layout.values()].filter(({ gpuType }) => gpuType === "H100");
    const masks = fc.array(fc.integer({ min: 0, max: all }), {
      minLength: hosts.length,
      maxLength: hosts.length,
    });
    fc.assert(
      fc.property(masks, (chosen) => {
        const parts = hosts.map(({ host }, at) => ({ host, mask: chosen[at] ?? 0 }));
        const count = parts.reduce((sum, { mask }) => sum + popCount(mask), 0);
        fc.pre(count >= 2);
        const used = hosts.filter((_, at) => chosen[at] !== 0);
        const touched = {
          domain: used.length,
          numa: used.length,
          host: used.length,
          rack: new Set(used.map(({ rack }) => rack)).size,
          cluster: new Set(used.map(({ cluster }) => cluster)).size,
          site: new Set(used.map(({ site }) => site)).size,
        };
        const weights = partWeights(spread, "H100", count);
        let want = 1 / 0.94 - 1;
        for (const level of LEVELS) {
          const least = leastParts(spread, { gpuType: "H100", gpus: count, level });
          expect(touched[level]).toBeGreaterThanOrEqual(least);
          want += weights[level] * (touched[level] - least);
        }
        expect(costOf(parts, spread)).toBeCloseTo(want, 9);
      }),
    );
  });
});
