/** @file The surrogate as a whole, on a small made-up cluster: repeats, learns, remembers, finds a slow host, survives JSON. */

import { describe, expect, test } from "vitest";
import type {
  BandwidthDomain,
  BandwidthSample,
  Candidate,
} from "../../../domain/bandwidth/bandwidth-port.ts";
import { hostId } from "../../../domain/values/ids.ts";
import { randomFrom } from "../../../lib/random.ts";
import { trainBoostedTrees } from "../../../models/bandwidth/boosted-trees.ts";
import { popCount } from "../../../domain/lease/lease.ts";
import { trainFlatSurrogate } from "../../../models/bandwidth/flat-surrogate.ts";
import { hostOffsets } from "../../../models/bandwidth/host-offsets.ts";
import { nearestNeighbour } from "../../../models/bandwidth/nearest-neighbour.ts";
import { openSurrogate } from "../../../models/bandwidth/onnx-predictor.ts";
import {
  accuracyOf,
  openSyncPredictor,
  trainSurrogate,
  type SurrogateModel,
} from "../../../models/bandwidth/surrogate.ts";

const DOMAIN: BandwidthDomain = {
  hosts: ["a", "b", "c"].map((name) => ({ id: hostId("eu", name), gpuCount: 4, gpuType: "X" })),
  intraGbs: (host, mask) => {
    const count = popCount(mask);
    return count === 1 ? Infinity : host === 2 ? 40 : 200 - 10 * count;
  },
};

/** Any smooth rule will do: more GPUs on the thinnest host, more bandwidth; a slow host gives a part of it. */
const truthGbs = (candidate: Candidate, slow?: number): number => {
  const counts = candidate.map(({ mask }) => popCount(mask));
  const inside = candidate.map(({ host, mask }) => DOMAIN.intraGbs(host, mask) ?? Infinity);
  const fabric = 20 * Math.sqrt(Math.min(...counts)) * (candidate.length === 2 ? 1.2 : 1);
  const drift = candidate.some(({ host }) => host === slow) ? 0.25 : 1;
  return Math.min(drift * fabric, ...inside);
};

const draw = (count: number, seed: number, slow?: number): BandwidthSample[] => {
  const random = randomFrom(seed, "samples");
  return Array.from({ length: count }, () => {
    const first = 1 + random.below(15);
    const masks = [first, 1 + random.below(15), random.below(3) === 0 ? 0 : 1 + random.below(15)];
    const turn = random.below(3);
    const shares = masks
      .map((mask, at) => ({ host: (at + turn) % 3, mask }))
      .filter(({ mask }) => mask > 0)
      .sort((a, b) => a.host - b.host);
    return { shares, gbs: truthGbs(shares, slow) };
  });
};

const SAMPLES = draw(60, 1);
const REQUEST = { domain: DOMAIN, samples: SAMPLES, seed: 1, budget: { steps: 40 } };

const model = await trainSurrogate(REQUEST);

describe("a surrogate", () => {
  test("is the same to the last bit when it is trained again", async () => {
    const again = await trainSurrogate(REQUEST);
    expect(again.parameters).toEqual(model.parameters);
    expect(again.settings).toEqual(model.settings);
  });

  test("answers the same after its settings went through JSON", () => {
    const copy: SurrogateModel = {
      parameters: model.parameters,
      settings: JSON.parse(JSON.stringify(model.settings)) as SurrogateModel["settings"],
    };
    const asked = draw(20, 2).map(({ shares }) => shares);
    expect(openSyncPredictor(copy, DOMAIN).predict(asked)).toEqual(
      openSyncPredictor(model, DOMAIN).predict(asked),
    );
  });

  test("answers GPUs of one host from the table, and is never faster than the slowest member", () => {
    const predictor = openSyncPredictor(model, DOMAIN);
    expect(predictor.predict([[{ host: 0, mask: 3 }], [{ host: 2, mask: 7 }]])).toEqual([180, 40]);
    const [gbs] = predictor.predict([
      [
        { host: 0, mask: 15 },
        { host: 2, mask: 15 },
      ],
    ]);
    expect(gbs).toBeLessThanOrEqual(40);
  });

  test("gives a measured candidate nearly what was measured, and without its memory the Transformer's guess", () => {
    const plain = accuracyOf(openSyncPredictor(model, DOMAIN, { memory: false }), SAMPLES);
    const own = accuracyOf(openSyncPredictor(model, DOMAIN), SAMPLES);
    expect(own.mapePercent).toBeLessThan(plain.mapePercent);
    expect(own.mapePercent).toBeLessThan(3);
  });

  test("may be counted on a little less where nothing like a candidate was measured, and only there", () => {
    const predictor = openSyncPredictor(model, DOMAIN);
    const bare = openSyncPredictor(model, DOMAIN, { memory: false });
    const open = SAMPLES.map(({ shares }) => shares).filter((shares) =>
      shares.every(({ host }) => host !== 2),
    );
    const shareOf = ({ appraise }: typeof predictor): readonly number[] =>
      (appraise?.(open) ?? []).map(({ predictedGbs, countedGbs }) => countedGbs / predictedGbs);
    expect(open.length).toBeGreaterThan(3);
    for (const share of shareOf(bare)) expect(share).toBeCloseTo(0.98, 6);
    for (const share of shareOf(predictor)) {
      expect(share).toBeGreaterThan(0.998);
      expect(share).toBeLessThan(1);
    }
  });

  test("answers bit for bit the same in any batch and after any history", () => {
    const asked = draw(15, 3).map(({ shares }) => shares);
    const together = openSyncPredictor(model, DOMAIN).predict(asked);
    const alone = openSyncPredictor(model, DOMAIN);
    [...asked.keys()].reverse().forEach((at) => {
      expect(alone.predict([asked[at] ?? []])[0]).toBe(together[at]);
    });
  });

  test("answers the same from onnxruntime within 1e-4", async () => {
    const asked = [...draw(30, 4).map(({ shares }) => shares), [{ host: 1, mask: 5 }]];
    const slow = await openSurrogate(model, DOMAIN);
    const answers = await slow.predictAsync(asked);
    await slow.close();
    openSyncPredictor(model, DOMAIN)
      .predict(asked)
      .forEach((gbs, at) => {
        expect(Math.abs(gbs / (answers[at] ?? NaN) - 1)).toBeLessThan(1e-4);
      });
  });

  test("refuses to learn without samples over several hosts", async () => {
    const samples = [{ shares: [{ host: 0, mask: 3 }], gbs: 180 }];
    await expect(trainSurrogate({ ...REQUEST, samples })).rejects.toThrow(/several hosts/);
  });

  test("going on from a model finds the host that fell behind, and keeps to its memory elsewhere", async () => {
    const next = await trainSurrogate({
      ...REQUEST,
      samples: draw(40, 5, 1),
      from: model,
      budget: { steps: 15 },
    });
    const { offsets } = next.settings.features;
    expect(Object.keys(offsets)).toEqual([hostId("eu", "b")]);
    expect(offsets[hostId("eu", "b")]).toBeLessThan(-0.7);
    const remembered = next.settings.memory.map(({ hosts }) => hosts);
    expect(remembered.length).toBeGreaterThan(40);
    expect(remembered.slice(40).flat()).not.toContain(hostId("eu", "b"));
  });
});

describe("offsets of hosts", () => {
  test.each([
    { slow: "1", residual: -1.4, want: "1" },
    { slow: "2", residual: 0.9, want: "2" },
  ])("name host $slow when every set with it is off by $residual", ({ slow, residual, want }) => {
    const random = randomFrom(9, "noise");
    const samples = draw(60, 9).map(({ shares }) => {
      const hosts = shares.map(({ host }) => String(host));
      const off = hosts.includes(slow) ? residual : 0;
      return { hosts, residual: off + 0.05 * random.normal() };
    });
    const found = hostOffsets(samples);
    expect(Object.keys(found)).toEqual([want]);
    expect(found[want]).toBeCloseTo(residual, 0);
  });

  test("of residuals without a pattern there are none", () => {
    const random = randomFrom(6, "noise");
    const samples = draw(100, 6).map(({ shares }) => ({
      hosts: shares.map(({ host }) => String(host)),
      residual: 0.05 * random.normal(),
    }));
    expect(hostOffsets(samples)).toEqual({});
  });
});

describe("rivals", () => {
  test("boosted trees and nearest neighbours learn the same samples; both repeat", () => {
    const held = draw(60, 7);
    for (const rival of [
      () => trainBoostedTrees({ ...REQUEST, samples: SAMPLES.slice(0, 40) }),
      () => nearestNeighbour({ domain: DOMAIN, samples: SAMPLES }),
    ]) {
      const asked = held.map(({ shares }) => shares);
      const [once, again] = [rival(), rival()];
      expect(accuracyOf(once, held).r2).toBeGreaterThan(0.7);
      expect(once.predict(asked)).toEqual(again.predict(asked));
    }
  });

  test("the flat Transformer knows GPUs by their number only", async () => {
    const flat = await trainFlatSurrogate({ ...REQUEST, steps: 20 });
    const [gbs] = flat.predict([SAMPLES[0]?.shares ?? []]);
    expect(gbs).toBeGreaterThan(0);
  });
});
