/** @file How a run's expected and measured bandwidth is put for people. */
import { expect, test } from "vitest";
import { runBandwidthText, type RunBandwidth } from "../../../domain/lease/bandwidth-note.ts";

test.each<{ name: string; run: RunBandwidth; want: string | undefined }>([
  { name: "nothing is known", run: {}, want: undefined },
  {
    name: "one host, by its table",
    run: { predictedGBs: 123.45 },
    want: "123.5 GB/s expected",
  },
  {
    name: "a search",
    run: {
      bandwidth: {
        predictedGbs: 97,
        bestGbs: 98,
        compactGbs: 41.5,
        model: "v7",
        method: "searched",
      },
    },
    want: "97.0 GB/s expected (best found 98.0, compact 41.5, by v7)",
  },
  {
    name: "no model",
    run: { bandwidth: { method: "compact", fallback: "no model serves here" } },
    want: "no prediction: no model serves here",
  },
  {
    name: "measured beside expected",
    run: { bandwidth: { predictedGbs: 100, method: "searched" }, measuredGbs: 80 },
    want: "100.0 GB/s expected; 80.0 GB/s measured, 80 % of what was expected",
  },
  {
    name: "several clusters",
    run: {
      bandwidth: {
        method: "compact",
        links: { clusters: ["eu-1", "us-1"], bottleneckGbs: 0.5397 },
      },
    },
    want: "over eu-1, us-1 at 0.540 GB/s, the narrowest link between them",
  },
  {
    name: "several clusters without links",
    run: {
      bandwidth: { method: "compact", links: { clusters: ["eu-1", "us-1"], bottleneckGbs: 0 } },
    },
    want: "over eu-1, us-1, which no known links join",
  },
  { name: "only measured", run: { measuredGbs: 80 }, want: "80.0 GB/s measured" },
])("$name", ({ run, want }) => {
  expect(runBandwidthText(run)).toBe(want);
});
