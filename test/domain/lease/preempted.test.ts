/** @file What a run that had to give up its GPUs has lost, and how it reads. */

import { describe, expect, it } from "vitest";
import { jobId } from "../../../domain/values/ids.ts";
import { lostGpuSeconds, preemptedText } from "../../../domain/lease/preempted.ts";

describe("lostGpuSeconds", () => {
  it.each([
    { name: "never started", run: { endedAtMs: 9_000 }, want: 0 },
    { name: "no checkpoint", run: { startedAtMs: 1_000, endedAtMs: 9_000 }, want: 32 },
    {
      name: "since its checkpoint",
      run: { startedAtMs: 1_000, endedAtMs: 9_000, checkpoint: { path: "/c", atMs: 8_500 } },
      want: 2,
    },
    {
      name: "a checkpoint of an earlier run saves nothing of this one",
      run: { startedAtMs: 1_000, endedAtMs: 9_000, checkpoint: { path: "/c", atMs: 500 } },
      want: 32,
    },
    {
      name: "clocks that disagree lose nothing",
      run: { startedAtMs: 1_000, endedAtMs: 9_000, checkpoint: { path: "/c", atMs: 9_500 } },
      want: 0,
    },
  ])("$name: $want", ({ run, want }) => {
    expect(lostGpuSeconds({ gpus: 4, ...run })).toBe(want);
  });
});

describe("preemptedText", () => {
  const checkpoint = { path: "/jobs/train/checkpoints/7/step-120", atMs: 1 };
  const told = { forJob: jobId("infer-3"), reason: "due", atMs: 1 };
  it.each([
    {
      name: "while it stops",
      told,
      ranMs: 40_000,
      want: "preempted for infer-3 after 40 s",
    },
    {
      name: "with a checkpoint",
      told: { ...told, checkpoint, lostGpuSeconds: 41.7 },
      ranMs: 180_000,
      want: "preempted for infer-3 after 3 min, checkpoint step-120, 42 GPU-seconds lost",
    },
    {
      name: "without one",
      told: { ...told, lostGpuSeconds: 100_000 },
      ranMs: 25_000_000,
      want: "preempted for infer-3 after 6.9 h, no checkpoint, 100000 GPU-seconds lost",
    },
    {
      name: "a part",
      told: { ...told, keptGpus: 6, checkpoint, lostGpuSeconds: 0 },
      ranMs: 180_000,
      want: "preempted for infer-3 after 3 min, goes on with 6 GPUs, checkpoint step-120, 0 GPU-seconds lost",
    },
    {
      name: "to grow",
      told: { ...told, forJob: jobId("train-1"), checkpoint, lostGpuSeconds: 3 },
      ranMs: 180_000,
      want: "stopped to grow after 3 min, checkpoint step-120, 3 GPU-seconds lost",
    },
  ])("$name", ({ told: preempted, ranMs, want }) => {
    expect(preemptedText(preempted, { jobId: "train-1", ranMs })).toBe(want);
  });
});
