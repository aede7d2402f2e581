/** @file The serving plan: an exhaustive oracle, laws of memory and of growth, a played service model, measured layers. */

import { readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";
import fc from "fast-check";
import { describe, expect, it, test } from "vitest";
import {
  ENGINES,
  isPlannedVariable,
  type ServiceGoal,
} from "../../../domain/model/engine-names.ts";
import { MODEL_PRESETS } from "../../../domain/model/model-presets.ts";
import { layerMs, parseLayerTimes } from "../../../domain/model/parse-layer-times.ts";
import type { TransformerShape } from "../../../domain/model/transformer-shape.ts";
import { gpuMemoryGbs, gpuTeraflops } from "../../../domain/values/gpu-speed.ts";
import { GPU_TYPES, knownGpuType } from "../../../domain/values/gpu-types.ts";
import { engineArguments, engineEnvironment } from "../../../planning/serving/engine-arguments.ts";
import { ENGINE, stageMemory, stageStarts } from "../../../planning/serving/engine-memory.ts";
import { promptTime, tokenMs } from "../../../planning/serving/engine-time.ts";
import { planServing, type ServingPlan } from "../../../planning/serving/plan-serving.ts";
import { servedModel, widthProblem } from "../../../planning/serving/served-model.ts";
import { isKept, serviceLevel } from "../../../planning/serving/service-level.ts";
import { servingGpu, type ServingSite } from "../../../planning/serving/serving-site.ts";
import { keptShare, playReplica } from "../../../bench/replicas/service-model.ts";

const GOAL: ServiceGoal = {
  ttftMs: 500,
  tpotMs: 40,
  promptTokens: 1024,
  outputTokens: 256,
  contextTokens: 2048,
};

function site(
  type: string,
  hostGpus: readonly number[],
  change: Partial<ServingSite> = {},
): ServingSite {
  return {
    gpuType: type,
    memoryGiB: knownGpuType(type)?.memoryGiB ?? 0,
    teraflops: gpuTeraflops(type) ?? 0,
    memoryGbs: gpuMemoryGbs(type) ?? 0,
    hostGpus,
    nvlinkGpus: hostGpus[0] ?? 1,
    ...change,
  };
}

function preset(name: string): TransformerShape {
  const shape = MODEL_PRESETS.get(name);
  if (shape === undefined) throw new Error(name);
  return shape;
}

function planned(
  name: string,
  where: ServingSite,
  { goal = GOAL, ratePerS }: { readonly goal?: ServiceGoal; readonly ratePerS?: number } = {},
): ServingPlan {
  const answer = planServing({
    name,
    shape: preset(name),
    site: where,
    goal,
    ...(ratePerS !== undefined && { ratePerS }),
  });
  if (answer.kind === "blocked") throw new Error(answer.message);
  return answer.plan;
}

const SERVED = ["llama-7b", "llama-13b", "llama-3-8b", "llama-70b", "llama-3-70b", "opt-6.7b"];

const anyCase = fc.record({
  name: fc.constantFrom(...SERVED),
  type: fc.constantFrom("H100", "H200", "A100-80", "A6000", "L40S"),
  gpus: fc.constantFrom(1, 2, 3, 4, 6, 8),
  hosts: fc.constantFrom(1, 2),
  nvlink: fc.boolean(),
  ttftMs: fc.constantFrom(60, 200, 500, 2000),
  tpotMs: fc.constantFrom(8, 20, 40, 100),
  promptTokens: fc.constantFrom(64, 700, 1500),
  outputTokens: fc.constantFrom(16, 256, 500),
});

type Case = typeof anyCase extends fc.Arbitrary<infer T> ? T : never;

const siteOf = ({ type, gpus, hosts, nvlink }: Case): ServingSite =>
  site(
    type,
    Array.from({ length: hosts }, () => gpus),
    { nvlinkGpus: nvlink ? gpus : 1 },
  );

const goalOf = ({ ttftMs, tpotMs, promptTokens, outputTokens }: Case): ServiceGoal => ({
  ttftMs,
  tpotMs,
  promptTokens,
  outputTokens,
  contextTokens: 2000,
});

const answerOf = (
  each: Case,
  change: { goal?: ServiceGoal; where?: ServingSite; ratePerS?: number } = {},
) =>
  planServing({
    name: each.name,
    shape: preset(each.name),
    site: change.where ?? siteOf(each),
    goal: change.goal ?? goalOf(each),
    ...(change.ratePerS !== undefined && { ratePerS: change.ratePerS }),
  });

/** Every pair of degrees with every number of replicas, asked one by one; the GPUs of the smallest that keeps the rate. */
function fewestGpus(each: Case, ratePerS: number): number | undefined {
  const [shape, where, goal] = [preset(each.name), siteOf(each), goalOf(each)];
  let best: number | undefined;
  for (let width = 1; width <= each.gpus; width += 1) {
    if (widthProblem(shape, width) !== undefined) continue;
    const model = servedModel(each.name, shape, width);
    const gpu = servingGpu(where, width);
    for (let stages = 1; width * stages <= each.gpus; stages += 1) {
      const tokens = Math.min(
        ...stageMemory(model, { stages, memoryGiB: where.memoryGiB }).map((part) => part.tokens),
      );
      if (tokens < goal.contextTokens) continue;
      const fit = Math.floor(tokens / (goal.promptTokens + goal.outputTokens));
      const earlier = goal.promptTokens + goal.outputTokens / 2;
      const replica = {
        prompt: promptTime(model, { gpu, stages, tokens: goal.promptTokens }),
        stepMs: Array.from({ length: Math.min(ENGINE.mostRequests, fit) }, (_, at) =>
          tokenMs(model, { gpu, stages, requests: at + 1, earlier }),
        ),
      };
      const most = each.hosts * Math.floor(each.gpus / (width * stages));
      for (let replicas = 1; replicas <= most; replicas += 1) {
        const gpus = width * stages * replicas;
        const isEnough = isKept(serviceLevel(replica, goal, ratePerS / replicas), goal);
        if (isEnough && gpus < (best ?? Infinity)) best = gpus;
      }
    }
  }
  return best;
}

describe("the plan is that of an exhaustive search", () => {
  it("takes the fewest GPUs that keep a stated rate, and says when none do", () => {
    fc.assert(
      fc.property(anyCase, fc.constantFrom(0.2, 1, 5, 20, 100), (each, ratePerS) => {
        const answer = answerOf(each, { ratePerS });
        const want = fewestGpus(each, ratePerS);
        if (answer.kind === "blocked") {
          expect(want).toBeUndefined();
          return;
        }
        expect(answer.plan.isKept).toBe(want !== undefined);
        if (want !== undefined) expect(answer.plan.gpus).toBe(want);
      }),
      { numRuns: 40 },
    );
  });

  it("has the greatest rate of all splits without a stated one, never below tensor parallelism alone", () => {
    fc.assert(
      fc.property(anyCase, (each) => {
        const answer = answerOf(each);
        if (answer.kind === "blocked") return;
        const { plan } = answer;
        for (const { ratePerS, mostReplicas } of plan.splits)
          expect(plan.ratePerS).toBeGreaterThanOrEqual(ratePerS * mostReplicas);
        expect(plan.ratePerS).toBeGreaterThanOrEqual(plan.baselineRatePerS ?? 0);
        expect(plan.isKept).toBe(plan.ratePerS > 0);
      }),
      { numRuns: 40 },
    );
  });
});

describe("memory", () => {
  it("is never over what an engine takes of a card, and holds the requests that the arguments allow", () => {
    fc.assert(
      fc.property(anyCase, (each) => {
        const answer = answerOf(each);
        if (answer.kind === "blocked") return;
        const { split, cardGiB, goal } = answer.plan;
        const model = servedModel(each.name, preset(each.name), split.width);
        const starts = stageStarts(model.blocks.length, split.stages);
        for (const [stage, part] of split.memory.entries()) {
          const perToken = model.blocks
            .slice(starts[stage], starts[stage + 1])
            .reduce((sum, { keyValueBytes }) => sum + keyValueBytes, 0);
          const used =
            part.weightsGiB +
            part.activationsGiB +
            part.reserveGiB +
            (split.tokens * perToken) / 2 ** 30;
          expect(used).toBeLessThanOrEqual(ENGINE.memoryShare * cardGiB + 1e-9);
        }
        expect(split.tokens).toBeGreaterThanOrEqual(goal.contextTokens);
        const request = goal.promptTokens + goal.outputTokens;
        expect(split.requests * request).toBeLessThanOrEqual(Math.max(split.tokens, request));
      }),
      { numRuns: 40 },
    );
  });

  it("of all stages and groups has each weight once, but for what stands whole on every GPU", () => {
    const shape = preset("llama-3-8b");
    const parameters = 8_030_261_248;
    for (const [width, stages] of [
      [1, 1],
      [8, 1],
      [2, 3],
      [1, 5],
    ] as const) {
      const parts = stageMemory(servedModel("m", shape, width), { stages, memoryGiB: 80 });
      const bytes = parts.reduce((sum, { weightsGiB }) => sum + weightsGiB * 2 ** 30, 0) * width;
      const norms = 2 * 65 * shape.hidden;
      expect(bytes - norms * width).toBeCloseTo(2 * parameters - norms, -2);
    }
  });

  it("counts a repeated key-value head on each GPU of a group that is wider than there are heads", () => {
    const shape = { ...preset("llama-3-8b"), keyValueHeads: 2 };
    const [two, four] = [servedModel("m", shape, 2), servedModel("m", shape, 4)];
    expect(four.blocks[0]?.keyValueBytes).toBe(two.blocks[0]?.keyValueBytes);
    const lost = 2 * (2 * shape.hidden * shape.headSize) * 4 * (1 - 2 / 4);
    const total = ({ blocks, width }: typeof two): number => (blocks[0]?.denseBytes ?? 0) * width;
    const norms = 2 * 2 * shape.hidden;
    expect(total(four) - 4 * norms - (total(two) - 2 * norms)).toBeCloseTo(lost, 3);
  });
});

describe("a plan only betters", () => {
  const rate = (answer: ReturnType<typeof answerOf>): number =>
    answer.kind === "blocked" ? 0 : answer.plan.ratePerS;

  it("with looser times, larger cards and more hosts", () => {
    fc.assert(
      fc.property(anyCase, (each) => {
        const before = rate(answerOf(each));
        const goal = goalOf(each);
        const looser = [
          { goal: { ...goal, ttftMs: goal.ttftMs * 1.5 } },
          { goal: { ...goal, tpotMs: goal.tpotMs * 1.5 } },
          { where: { ...siteOf(each), memoryGiB: siteOf(each).memoryGiB * 1.25 } },
          { where: { ...siteOf(each), hostGpus: [...siteOf(each).hostGpus, each.gpus] } },
        ];
        for (const change of looser)
          expect(rate(answerOf(each, change))).toBeGreaterThanOrEqual(before * (1 - 1e-9));
      }),
      { numRuns: 25 },
    );
  });

  it("with a lower rate, which never needs more GPUs and never has longer times in one replica", () => {
    fc.assert(
      fc.property(anyCase, fc.double({ min: 0.1, max: 50, noNaN: true }), (each, ratePerS) => {
        const [high, low] = [
          answerOf(each, { ratePerS }),
          answerOf(each, { ratePerS: ratePerS / 2 }),
        ];
        if (high.kind === "blocked" || low.kind === "blocked") return;
        if (high.plan.isKept) expect(low.plan.gpus).toBeLessThanOrEqual(high.plan.gpus);
        const { replica } = high.plan.split;
        const goal = goalOf(each);
        const [more, less] = [ratePerS, ratePerS / 2].map((of) => serviceLevel(replica, goal, of));
        if (more === undefined) return;
        expect(less?.ttftMs).toBeLessThanOrEqual(more.ttftMs);
        expect(less?.tpotMs).toBeLessThanOrEqual(more.tpotMs);
      }),
      { numRuns: 40 },
    );
  });
});

describe("a played engine with continuous batching", () => {
  test.each([
    { name: "llama-3-8b", type: "H100", gpus: 8, goal: GOAL },
    { name: "llama-3-70b", type: "H100", gpus: 8, goal: { ...GOAL, ttftMs: 1000 } },
    { name: "llama-13b", type: "A100-80", gpus: 4, goal: { ...GOAL, tpotMs: 60 } },
    { name: "llama-7b", type: "L40S", gpus: 2, goal: { ...GOAL, promptTokens: 1700, ttftMs: 900 } },
  ])("keeps both times of 99 answers in 100 at the planned rate: $name on $gpus $type", (each) => {
    const plan = planned(each.name, site(each.type, [each.gpus]), { goal: each.goal });
    expect(plan.isKept).toBe(true);
    const ratePerS = plan.ratePerS / plan.replicas;
    const answers = playReplica(plan.split.replica, each.goal, { ratePerS, count: 4000, seed: 1 });
    expect(keptShare(answers, each.goal)).toBeGreaterThanOrEqual(0.99);
    const far = playReplica(plan.split.replica, each.goal, {
      ratePerS: 1.5 * ratePerS,
      count: 4000,
      seed: 1,
    });
    // The plan is not so careful that half as many requests again would be kept, too.
    expect(keptShare(far, each.goal)).toBeLessThan(0.99);
  });
});

describe("measured layers of Llama-3.1-8B", () => {
  const measured = (device: string, tokens: number): number => {
    const file = `data/layer-times/${device}-Llama-3.1-8B-tp1-layers.csv.gz`;
    const parsed = parseLayerTimes(gunzipSync(readFileSync(file)).toString("utf8"), file);
    if (parsed.kind === "refused") throw new Error(file);
    const once = ["embedding", "final_layernorm", "lm_head"];
    return [...parsed.layers].reduce(
      (sum, [layer, times]) =>
        sum + (once.includes(layer) ? 1 : 32) * (layerMs(times, tokens) ?? NaN),
      0,
    );
  };

  test.each([
    { device: "H100", tokens: 512, want: 0.15 },
    { device: "H100", tokens: 2048, want: 0.1 },
    { device: "A6000", tokens: 512, want: 0.1 },
    { device: "A6000", tokens: 2048, want: 0.1 },
  ])("take about as long as the predicted prompt: $device, $tokens tokens", (each) => {
    const model = servedModel("llama-3-8b", preset("llama-3-8b"), 1);
    const gpu = servingGpu(site(each.device, [1]), 1);
    const { wholeMs } = promptTime(model, { gpu, stages: 1, tokens: each.tokens });
    expect(Math.abs(wholeMs / measured(each.device, each.tokens) - 1)).toBeLessThan(each.want);
  });
});

describe("single facts", () => {
  it("says how blocks are dealt out where stages have not as many each", () => {
    const shape = preset("llama-3-8b");
    const plan = planned("llama-3-8b", site("H100", [3]));
    const of = (stages: number): ServingPlan => ({ ...plan, split: { ...plan.split, stages } });
    expect(engineEnvironment("vllm", of(3), shape)).toEqual({
      VLLM_PP_LAYER_PARTITION: "11,11,10",
    });
    expect(engineEnvironment("sglang", of(5), shape)).toEqual({
      SGLANG_PP_LAYER_PARTITION: "6,6,7,7,6",
    });
    expect(engineEnvironment("vllm", of(4), shape)).toEqual({});
  });

  it("deals blocks out as vLLM does: those left go before the last stage", () => {
    expect(stageStarts(32, 3)).toEqual([0, 11, 22, 32]);
    expect(stageStarts(10, 4)).toEqual([0, 2, 5, 8, 10]);
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 130 }),
        fc.integer({ min: 1, max: 16 }),
        (blocks, stages) => {
          const starts = stageStarts(blocks, stages);
          expect(starts).toHaveLength(stages + 1);
          expect(starts.at(-1)).toBe(blocks);
        },
      ),
    );
  });

  it("refuses a model that does not fit with what each GPU would have", () => {
    const answer = planServing({
      name: "llama-3.1-405b",
      shape: preset("llama-3.1-405b"),
      site: site("H100", [8]),
      goal: GOAL,
    });
    expect(answer).toMatchObject({
      kind: "blocked",
      message: expect.stringMatching(/94\.\d GiB of weights.*72\.0 of 80 GiB/) as string,
    });
  });

  it("refuses encoders, and requests beyond the model's positions", () => {
    for (const [name, want] of [
      ["bert-340m", /no text/],
      ["gpt2-350m", /takes 1024 tokens, and a request may have 2048; let it have at most 1024$/],
    ] as const) {
      const answer = planServing({
        name,
        shape: preset(name),
        site: site("H100", [1]),
        goal: GOAL,
      });
      expect(answer).toMatchObject({ message: expect.stringMatching(want) as string });
    }
  });

  it("refuses requests beyond the positions that rotations were trained for", () => {
    const blocked = (contextTokens: number): string => {
      const [name, goal] = ["llama-3-8b", { ...GOAL, contextTokens }];
      const answer = planServing({ name, shape: preset(name), site: site("H100", [8]), goal });
      return answer.kind === "blocked" ? answer.message : "";
    };
    expect([blocked(8192), blocked(8193)]).toEqual([
      "",
      expect.stringMatching(/takes 8192 tokens/),
    ]);
  });

  it("says the nearest plan when no split keeps the times even for a request alone", () => {
    const goal = { ...GOAL, ttftMs: 5, tpotMs: 1 };
    const plan = planned("llama-3-70b", site("H100", [8]), { goal });
    expect(plan).toMatchObject({ isKept: false, ratePerS: 0, split: { width: 8 } });
  });

  it("says the arguments of each engine", () => {
    const plan = planned("llama-3-8b", site("H100", [8]), { ratePerS: 30 });
    expect([plan.split.width, plan.split.stages, plan.replicas]).toEqual([1, 1, 2]);
    expect(engineArguments("vllm", plan)).toEqual([
      "--tensor-parallel-size 1",
      "--pipeline-parallel-size 1",
      "--data-parallel-size 2",
      "--max-model-len 2048",
      `--max-num-seqs ${plan.split.requests}`,
      "--max-num-batched-tokens 2048",
      "--gpu-memory-utilization 0.9",
    ]);
    for (const engine of ENGINES)
      expect(
        isPlannedVariable("ORBWEAVER_ENGINE_ARGS", engineArguments(engine, plan).join(" ")),
      ).toBe(true);
    expect(engineArguments("sglang", plan).slice(0, 4)).toEqual([
      "--tp 1",
      "--pp-size 1",
      "--dp 2",
      "--context-length 2048",
    ]);
  });

  it("knows the memory bandwidth of every GPU type whose speed it knows", () => {
    for (const type of GPU_TYPES)
      expect(gpuMemoryGbs(type) === undefined).toBe(gpuTeraflops(type) === undefined);
  });
});
