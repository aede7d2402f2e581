/** @file Plans for DeepSpeed and FSDP2: every GPU a replica, the settings that the memory was counted for, and why nothing fits. */

import { expect, test } from "vitest";
import { randomFrom } from "../../../lib/random.ts";
import { planDocument } from "../../../planning/parallelism/plan-document.ts";
import { planTraining, type PlanAnswer } from "../../../planning/parallelism/plan.ts";
import type { PlanSite } from "../../../planning/parallelism/site.ts";
import { host, preset, siteOf } from "./sites.ts";

const H100 = { gpuType: "H100", teraflops: 989, inside: { gbs: 337, latencyMs: 0.01 } };
const FABRIC = { gbs: 50, latencyMs: 0.02 };

const hosts = (count: number): PlanSite => ({
  ...siteOf(...Array.from({ length: count }, (_, at) => host(`h${String(at)}`, 8, H100))),
  fabric: () => FABRIC,
});

const planned = (
  model: string,
  framework: "deepspeed" | "fsdp2",
  { site, batch }: { readonly site: PlanSite; readonly batch: number },
): Promise<PlanAnswer> =>
  planTraining({ model: preset(model), site, batch, framework, random: randomFrom(1, "plan") });

test.each([
  // What fits with whole parameters is not gathered for every micro-batch.
  { model: "gpt2-4.2b", framework: "deepspeed", count: 1, batch: 64, want: [2, 8] },
  { model: "llama-13b", framework: "deepspeed", count: 2, batch: 64, want: [2, 16] },
  { model: "llama-70b", framework: "deepspeed", count: 8, batch: 64, want: [3, 64] },
  { model: "llama-7b", framework: "fsdp2", count: 1, batch: 64, want: ["fsdp2", 8] },
  { model: "llama-70b", framework: "fsdp2", count: 8, batch: 64, want: ["fsdp2", 64] },
] as const)(
  "$model by $framework on $count hosts: $want",
  async ({ model, framework, count, batch, want }) => {
    const site = hosts(count);
    const answer = await planned(model, framework, { site, batch });
    if (answer.kind === "blocked") throw new Error(answer.message);
    const document = planDocument(answer.plan, site, preset(model).shape);
    const { arguments: launch, dataParallel, microBatch, microBatches } = document;
    expect(microBatch * microBatches * dataParallel).toBe(batch);
    expect(launch.megatron).toEqual([]);
    expect(document.stages.every(({ memoryGiB }) => memoryGiB <= 80)).toBe(true);
    if (framework === "deepspeed") {
      expect(launch.fsdp2).toBeUndefined();
      expect([launch.deepspeed?.["zero_optimization"], dataParallel]).toMatchObject([
        { stage: want[0] },
        want[1],
      ]);
      expect(launch.deepspeed).toMatchObject({
        train_batch_size: batch,
        train_micro_batch_size_per_gpu: microBatch,
        gradient_accumulation_steps: microBatches,
      });
    } else {
      expect(launch.deepspeed).toBeUndefined();
      expect(launch.fsdp2).toMatchObject({
        mesh: [want[1]],
        micro_batch_size: microBatch,
        gradient_accumulation_steps: microBatches,
        activation_checkpointing: document.recomputeActivations ? "block" : "none",
      });
    }
  },
);

test("nine samples a replica go at once where every micro-batch gathers the parameters anew", async () => {
  const site = { ...hosts(1), hosts: [host("a", 4), host("b", 4)] };
  const answer = await planned("gpt2-350m", "fsdp2", { site, batch: 72 });
  if (answer.kind === "blocked") throw new Error(answer.message);
  expect(answer.plan.split).toMatchObject({ microBatch: 9, microBatches: 1 });
});

test("says how many GPUs would do", async () => {
  const answer = await planned("llama-70b", "fsdp2", { site: hosts(1), batch: 64 });
  const message = answer.kind === "blocked" ? answer.message : "";
  const enough = Number(/take (\d+) of these GPUs/.exec(message)?.[1]);
  expect(enough).toBeGreaterThan(8);
  expect(enough).toBeLessThanOrEqual(32);
  const site = siteOf(host("a", enough, H100));
  const again = await planned("llama-70b", "fsdp2", { site, batch: enough });
  expect(again.kind).toBe("planned");
  const fewer = siteOf(host("a", enough - 1, H100));
  expect((await planned("llama-70b", "fsdp2", { site: fewer, batch: enough - 1 })).kind).toBe(
    "blocked",
  );
});

test("says that the batch must be shared by all", async () => {
  const answer = await planned("gpt2-350m", "deepspeed", { site: hosts(1), batch: 12 });
  expect(answer).toMatchObject({ kind: "blocked" });
  expect(answer.kind === "blocked" && answer.message).toMatch(
    /batch of 12, which all of them share/,
  );
});
