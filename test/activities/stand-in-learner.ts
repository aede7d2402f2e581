/** @file A learner that answers with the mean of what it was shown, and the manifest of a version before it has a number. */
import type { Learner } from "../../models/bandwidth/learner.ts";
import type { ModelDraft } from "../../models/bandwidth/registry.ts";

/** One byte: the mean, so that a test can write one by hand. */
export const meanLearner: Learner = {
  name: "mean",
  learn({ samples }) {
    const mean = samples.reduce((sum, { gbs }) => sum + gbs, 0) / samples.length;
    return Promise.resolve({
      files: new Map([["mean", new Uint8Array([Math.round(mean)])]]),
      metrics: { mean },
    });
  },
  open: (files, { domain, version }) => ({
    version,
    domain,
    predict: (candidates) => candidates.map(() => files.get("mean")?.[0] ?? NaN),
  }),
};

export const modelDraft = (more: Partial<ModelDraft> = {}): ModelDraft => ({
  fleet: "default",
  cluster: "c0",
  createdAtMs: 1_000,
  seed: 1,
  samples: { count: 30, hash: "h" },
  metrics: {},
  holdout: { own: { mape: 0.05, samples: 6 }, plain: { mape: 0.2, samples: 6 } },
  gate: { holds: true, reason: "better" },
  hosts: [],
  learner: "mean",
  order: "a",
  ...more,
});
