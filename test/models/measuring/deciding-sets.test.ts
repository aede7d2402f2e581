/** @file Sets that picks are decided by: the leading class of a state, two alternatives known wherever there is a choice. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { BandwidthDomain, Candidate } from "../../../domain/bandwidth/bandwidth-port.ts";
import { hostId } from "../../../domain/values/ids.ts";
import { popCount } from "../../../domain/lease/lease.ts";
import { randomFrom } from "../../../lib/random.ts";
import { decidingSets, leadingClass } from "../../../models/measuring/deciding-sets.ts";

const domainOf = (hosts: number, gpuCount: number): BandwidthDomain => ({
  hosts: Array.from({ length: hosts }, (_, at) => ({
    id: hostId("eu", `h${String(at)}`),
    gpuCount,
    gpuType: "X",
  })),
  intraGbs: (_, mask) => (popCount(mask) === 1 ? Infinity : 200 - 10 * popCount(mask)),
});

const shapeOf = (counts: readonly number[]): string => [...counts].sort((a, b) => b - a).join();
const nameOf = (set: Candidate): string => shapeOf(set.map(({ mask }) => popCount(mask)));
const masks = (free: readonly number[]): readonly number[] => free.map((count) => 2 ** count - 1);

/** Every way to split the gang, then those that lead. */
function classByForce(free: readonly number[], gpus: number): readonly string[] {
  let ways: (readonly number[])[] = [[]];
  for (const most of free)
    ways = ways.flatMap((way) => Array.from({ length: most + 1 }, (_, count) => [...way, count]));
  const used = ways
    .map((way) => way.filter((count) => count > 0))
    .filter((way) => way.length > 1 && way.reduce((sum, count) => sum + count, 0) === gpus);
  const fewest = Math.max(...used.map((way) => Math.min(...way)));
  const leading = used.filter((way) => Math.min(...way) === fewest);
  const hosts = Math.min(...leading.map((way) => way.length));
  return [...new Set(leading.filter((way) => way.length === hosts).map(shapeOf))].sort();
}

describe("the leading class of a state", () => {
  test.each([
    { free: [3, 5, 7, 2], gpus: 16, want: ["6,5,3,2", "7,4,3,2", "7,5,2,2"] },
    { free: [8, 8, 4, 2], gpus: 21, want: ["8,7,4,2", "8,8,3,2"] },
    { free: [8, 8, 8, 8], gpus: 17, want: ["6,6,5", "7,5,5"] },
    { free: [8, 8, 8, 8], gpus: 8, want: ["4,4"] },
    { free: [2, 1, 0, 1], gpus: 4, want: [] },
    { free: [0, 6, 0, 0], gpus: 3, want: [] },
  ])("with $free free is $want of $gpus GPUs", ({ free, gpus, want }) => {
    expect([...leadingClass({ gpus, freeMasks: masks(free) }).keys()].sort()).toEqual(want);
  });

  test("is what listing all ways gives, each within what is free", () => {
    const free = fc.array(fc.integer({ min: 0, max: 5 }), { minLength: 2, maxLength: 4 });
    fc.assert(
      fc.property(free, fc.integer({ min: 2, max: 19 }), (counts, gpus) => {
        const open = counts.filter((count) => count > 0);
        const total = open.reduce((sum, count) => sum + count, 0);
        fc.pre(open.length > 1 && gpus < total);
        const ways = leadingClass({ gpus, freeMasks: masks(counts) });
        expect([...ways.keys()].sort()).toEqual(classByForce(counts, gpus));
        for (const way of ways.values())
          way.forEach((count, host) => {
            expect(count).toBeLessThanOrEqual(counts[host] ?? 0);
          });
      }),
    );
  });
});

describe("sets that picks are decided by", () => {
  const domain = domainOf(3, 4);
  const need = { count: 500, measured: [], hosts: [0, 1, 2] };
  const all = (): readonly Candidate[] =>
    decidingSets(domain, { ...need, random: randomFrom(2, "sets") });

  test("end when two shapes are known in every state that has a choice", () => {
    const known = new Set(all().map(nameOf));
    expect(known.size).toBe(all().length);
    for (let code = 0; code < 5 ** 3; code += 1) {
      const free = [code % 5, Math.floor(code / 5) % 5, Math.floor(code / 25)];
      for (let gpus = 2; gpus < 12; gpus += 1) {
        const names = [...leadingClass({ gpus, freeMasks: masks(free) }).keys()];
        const found = names.filter((name) => known.has(name)).length;
        expect(found, `${String(gpus)} of ${free.join()}`).toBeGreaterThanOrEqual(
          Math.min(2, names.length),
        );
      }
    }
  });

  test("repeat for a seed; what was measured need not be measured again, on whatever hosts", () => {
    const sets = all();
    expect(all()).toEqual(sets);
    const measured = sets.slice(0, 5);
    const next = decidingSets(domain, { ...need, measured, random: randomFrom(2, "sets") });
    expect(next.map(nameOf)).toEqual(sets.slice(5).map(nameOf));
  });

  test("come in one order, however many are asked", () => {
    const first = decidingSets(domain, { ...need, count: 4, random: randomFrom(2, "sets") });
    expect(first).toEqual(all().slice(0, 4));
  });

  test("lie on hosts that take part, also among many", () => {
    const large = domainOf(40, 8);
    const hosts = Array.from({ length: 20 }, (_, at) => 2 * at);
    const sets = decidingSets(large, {
      count: 60,
      measured: [],
      hosts,
      random: randomFrom(2, "sets"),
    });
    expect(new Set(sets.map(nameOf)).size).toBe(60);
    const touched = new Set(sets.flatMap((set) => set.map(({ host }) => host)));
    expect(touched.size).toBeGreaterThan(15);
    for (const host of touched) expect(hosts).toContain(host);
  });
});
