/** @file A model asked about other messages than it was trained with: a few sets at another size carry all others there. */

import { beforeAll, describe, expect, test } from "vitest";
import { h100Truth } from "../../../bench/pick/truth.ts";
import { readTruthData } from "../../../bench/pick/truth-data.ts";
import type { BandwidthPredictor } from "../../../domain/bandwidth/bandwidth-port.ts";
import type { MessageProfile } from "../../../domain/bandwidth/message-profile.ts";
import { popCount } from "../../../domain/lease/lease.ts";
import { randomFrom } from "../../../lib/random.ts";
import { predictAsked, scoreOf } from "../../../models/bandwidth/gate.ts";
import { openSyncPredictor, trainSurrogate } from "../../../models/bandwidth/surrogate.ts";
import { otherMessageSets } from "../../../models/measuring/other-message-sets.ts";
import { sizeRatio, usualRatio } from "../../../models/bandwidth/size-transfer.ts";

const { domain, samples } = h100Truth(readTruthData());
const LARGE: MessageProfile = { collective: "all_reduce", bytes: 2 ** 31 };
const MIDDLE: MessageProfile = { collective: "all_reduce", bytes: 2 ** 28 };

/** What large messages get: the cards of the host with fewest GPUs, twice over between two hosts. */
const largeGbs = (masks: readonly number[]): number => {
  const counts = masks.map(popCount);
  if (counts.length === 1) return 400 + 10 * (counts[0] ?? 0);
  return Math.min(45 * Math.min(...counts) * (counts.length === 2 ? 1.8 : 1.1), 430);
};

let base: BandwidthPredictor;
let few: BandwidthPredictor;

beforeAll(async () => {
  const usual = samples.filter((_, at) => at % 2 === 0);
  const sets = otherMessageSets(domain, { count: 25, random: randomFrom(1), measured: [] });
  const large = sets.map((shares) => ({
    shares,
    gbs: largeGbs(shares.map(({ mask }) => mask)),
    messages: LARGE,
  }));
  const budget = { steps: 150 };
  const model = await trainSurrogate({ domain, samples: [...usual, ...large], seed: 1, budget });
  few = openSyncPredictor(model, domain, { version: "v1" });
  const { others: _few, ...settings } = model.settings;
  base = openSyncPredictor({ ...model, settings }, domain);
});

const truth = samples.map(({ shares }) => ({
  shares,
  gbs: largeGbs(shares.map(({ mask }) => mask)),
  messages: LARGE,
}));

describe("25 sets for other messages", () => {
  test.each([1, 2, 3, 4])(
    "have some over two hosts, which are a kind of their own (seed %i)",
    (seed) => {
      const sets = otherMessageSets(domain, { count: 25, random: randomFrom(seed), measured: [] });
      expect(sets.length).toBe(25);
      expect(sets.filter(({ length }) => length === 2).length).toBeGreaterThanOrEqual(3);
      expect(sets.filter(({ length }) => length > 2).length).toBeGreaterThanOrEqual(12);
      const more = otherMessageSets(domain, { count: 8, random: randomFrom(seed), measured: sets });
      expect(more.filter(({ length }) => length === 2).length).toBeLessThanOrEqual(4);
    },
  );
});

describe("from 25 sets of large messages", () => {
  test("all others are predicted far better than by the usual messages", () => {
    const without = scoreOf(predictAsked(base), truth).mape;
    const withFew = scoreOf(predictAsked(few), truth).mape;
    expect(without).toBeGreaterThan(0.3);
    expect(withFew).toBeLessThan(0.12);
  });

  test("the usual messages are answered as before", () => {
    const asked = samples.slice(0, 50).map(({ shares }) => shares);
    expect(few.predict(asked)).toEqual(base.predict(asked));
  });

  test("sizes between lie between, and the version names them", () => {
    const at = few.at?.(MIDDLE);
    expect(at?.version).toBe("v1 at 256 MiB");
    for (const { shares } of samples.slice(0, 40)) {
      const [low = 0] = few.predict([shares]);
      const [middle = 0] = at?.predict([shares]) ?? [];
      const [high = 0] = few.at?.(LARGE).predict([shares]) ?? [];
      expect(middle).toBeGreaterThanOrEqual(Math.min(low, high) * 0.999);
      expect(middle).toBeLessThanOrEqual(Math.max(low, high) * 1.001);
    }
  });

  test("one answer does not depend on the rest of its batch, and none is above the slowest member host", () => {
    const at = few.at?.(LARGE);
    const asked = samples.slice(0, 60).map(({ shares }) => shares);
    const together = at?.predict(asked) ?? [];
    expect(asked.flatMap((each) => at?.predict([each]) ?? [])).toEqual(together);
    for (const [index, shares] of asked.entries())
      for (const { host, mask } of shares)
        expect(together[index]).toBeLessThanOrEqual(at?.domain.intraGbs(host, mask) ?? 0);
  });

  test("a collective that was not measured counts as the one that was", () => {
    const asked = samples.slice(0, 10).map(({ shares }) => shares);
    const other = few.at?.({ collective: "alltoall", bytes: LARGE.bytes });
    expect(other?.predict(asked)).toEqual(few.at?.(LARGE).predict(asked));
  });
});

test("a model of the usual messages stays one, however many measurements of others come", async () => {
  const usual = samples.slice(0, 40);
  const budget = { steps: 1 };
  const from = await trainSurrogate({ domain, samples: usual, seed: 1, budget });
  const large = samples.slice(0, 80).map((sample) => ({ ...sample, messages: LARGE }));
  const next = await trainSurrogate({
    ...{ domain, from, budget, seed: 1 },
    samples: [...usual, ...large],
  });
  expect(next.settings.messages).toBeUndefined();
  expect(next.settings.others?.map(({ messages }) => messages)).toEqual([LARGE]);
});

describe("the ratio of two sizes", () => {
  const point = (gpus: number, gbs: number) => ({
    ...{ hosts: 2, gpus, least: gpus / 2, most: gpus / 2, gbs, exception: 0 },
    name: String(gpus),
  });
  const step = { fromBytes: 2 ** 24, toBytes: 2 ** 31, kind: "across" } as const;

  test("is α–β before anything is measured", () => {
    expect(sizeRatio([], step)(point(8, 140))).toBeCloseTo(usualRatio(140, step), 9);
    expect(usualRatio(140, step)).toBeGreaterThan(1.5);
    expect(usualRatio(140, { ...step, toBytes: step.fromBytes })).toBeCloseTo(1, 9);
  });

  test("is near what was measured of a set, and moves sets like it the same way", () => {
    const known = [4, 8, 12].map((gpus) => ({ point: point(gpus, 140), gbs: 140 * 4 }));
    const ratio = sizeRatio(known, step);
    expect(ratio(point(8, 140))).toBeCloseTo(4, 1);
    expect(ratio(point(10, 140))).toBeGreaterThan(3);
  });
});
