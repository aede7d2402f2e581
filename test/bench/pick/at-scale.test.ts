/** @file Picks judged on a fabric: states, oracle, entrants, and a short run as the command has it. */

import { describe, expect, it } from "vitest";
import { readFabrics } from "../../../bench/pick/at-scale/fabrics.ts";
import { judgeFabric, KNOWING, OURS } from "../../../bench/pick/at-scale/at-scale.ts";
import { freeGpus, openField } from "../../../bench/pick/at-scale/field.ts";
import { worthWithoutPaths } from "../../../bench/pick/at-scale/knowing.ts";
import { oracle, randomSet } from "../../../bench/pick/at-scale/oracle.ts";
import { productChooser } from "../../../bench/pick/at-scale/entrants.ts";
import { drawnFabricState } from "../../../bench/pick/at-scale/states.ts";
import { fabricTruth } from "../../../bench/fabric/truth.ts";
import { popCount } from "../../../domain/lease/lease.ts";
import { randomFrom } from "../../../lib/random.ts";

const [spec] = readFabrics("two-cards");
if (spec === undefined) throw new Error("two-cards is one of the fabrics");
const field = openField(spec, { gpus: 128, seed: 9 });
const sizeOf = (pick: readonly { readonly mask: number }[]): number =>
  pick.reduce((sum, { mask }) => sum + popCount(mask), 0);

describe("picks at scale", () => {
  it("has states with room for the request, and gangs on what is taken", () => {
    const smallest = openField(spec, { gpus: 8, seed: 9 });
    const small = openField(spec, { gpus: 32, seed: 9 });
    for (let seed = 1; seed <= 60; seed += 1) {
      const on = [field, small, smallest][seed % 3] ?? field;
      const { gpus, freeMasks, gangs } = drawnFabricState(on, randomFrom(seed, "states"));
      expect(freeMasks.reduce((sum, mask) => sum + popCount(mask), 0)).toBeGreaterThanOrEqual(gpus);
      for (const gang of gangs)
        for (const { host, mask } of gang) expect(mask & (freeMasks[host] ?? 0)).toBe(0);
    }
  });

  it("has an oracle that is never below an entrant, and stays within what is free", () => {
    const topology = productChooser(field);
    for (let seed = 1; seed <= 5; seed += 1) {
      const random = randomFrom(seed, "oracle");
      const state = drawnFabricState(field, random);
      const pick = topology(state);
      const rivals = [0, 1, 2].map((kind) =>
        randomSet(kind, { ...state, racks: field.racks, random }),
      );
      for (const each of [pick, ...rivals]) {
        expect(sizeOf(each)).toBe(state.gpus);
        expect(field.truth.mostGbs(each) * (1 + 1e-9)).toBeGreaterThanOrEqual(
          field.truth.gbs(each, state.neighbours),
        );
      }
      const effort = { randomSets: 50, patience: 30, entrants: [pick], random };
      const best = oracle(field, state, effort);
      expect(best.gbs).toBeGreaterThanOrEqual(field.truth.gbs(pick, state.neighbours));
      expect(sizeOf(best.pick)).toBe(state.gpus);
      for (const { host, mask } of best.pick) expect(mask & ~(state.freeMasks[host] ?? 0)).toBe(0);
    }
  });

  it("judges all in the same states, ours well ahead of random sets", async () => {
    const plan = { gpus: 128, seed: 9, samples: 64, states: 6, timed: 2, randomSets: 50 };
    const found = await judgeFabric(spec, { ...plan, patience: 40, say: () => undefined });
    const of = (wanted: string) => found.picks.filter(({ entrant }) => entrant === wanted);
    expect(of(OURS).length).toBe(6);
    for (const { gbs, bestGbs } of found.picks) expect(gbs).toBeLessThanOrEqual(bestGbs);
    const sum = (wanted: string) => of(wanted).reduce((total, { gbs }) => total + gbs, 0);
    expect(sum(OURS)).toBeGreaterThan(1.5 * sum("Random"));
    expect(sum(KNOWING)).toBeGreaterThan(1.5 * sum("Random"));
    // On this cluster no uplink holds up any of them, whatever the hash.
    for (const { gbs, expectedGbs } of found.picks) expect(expectedGbs).toBeCloseTo(gbs, 9);
    expect(found.pickMs.length).toBe(2);
  });

  it("expects of a set what it has without the luck of a hash: the same in a rack, and over racks what the next hash gives", () => {
    const [hashed] = readFabrics("leaf-spine");
    if (hashed === undefined) throw new Error("leaf-spine is one of the fabrics");
    const on = openField(hashed, { gpus: 128, seed: 9 });
    const { cluster } = on.truth;
    const others = [50, 51, 52, 53].map((seed) => ({
      ...on,
      truth: fabricTruth({ ...cluster, seed }),
    }));
    const state = { gpus: 64, freeMasks: freeGpus(on), gangs: [], neighbours: [] };
    const worth = worthWithoutPaths(on)(state);
    const inRack = [0, 1, 2].map((host) => ({ host, mask: 255 }));
    const over = [0, 1, 2, 9, 10, 11].map((host) => ({ host, mask: 255 }));
    expect(worth(inRack)).toBeCloseTo(on.truth.gbs(inRack), 9);
    expect(new Set(others.map(({ truth }) => truth.gbs(over))).size).toBeGreaterThan(1);
    const all = others.map((other) => worthWithoutPaths(other)(state)(over));
    const real = others.map(({ truth }) => truth.gbs(over));
    expect(Math.max(...all) - Math.min(...all)).toBeLessThan(Math.max(...real) - Math.min(...real));
  });

  it("refuses a name that is neither fabric nor file, and names the fabrics", () => {
    expect(() => readFabrics("leaf-spin")).toThrow(/leaf-spine/);
    expect(readFabrics("all").map(({ name }) => name)).toContain("nvl72-infiniband");
  });
});
