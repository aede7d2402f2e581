/**
 * @file How long one replica takes for a prompt, and for one more token of a batch of requests.
 *
 * A block takes max(FLOPs / reached peak, bytes / reached bandwidth), once for its matrices and once for attention, a fixed time for its kernels, and two
 * all-reduces of its tokens. Matrices: 2 FLOPs a weight and token, each weight read once a step. Attention: 2 FLOPs for every column of a query and a
 * key, and of a score and a value; keys and values of all earlier tokens are read. A prompt of P tokens has P (P + 1) / 2 pairs and passes in pieces of
 * `stepTokens`. The last stage multiplies with the output matrix, for the last token of each request.
 *
 * Between GPUs with NVLink an all-reduce of B bytes takes min(α + (t − 1) B / g, 2α + 2 (t − 1) / t × B / g), the engines' own kernels in one and in two
 * phases; over PCIe 2 (t − 1) α + 2 (t − 1) / t × B / g, a ring. With p stages p batches go round, each of 1/p of the requests, so a token comes after p
 * times the slowest stage. Sources: the roofline model (Williams et al. 2009); Pope et al. 2022, §2 to 3. Cost: O(blocks) for each question.
 */

import type { Way } from "../parallelism/site.ts";
import { ENGINE, stageStarts } from "./engine-memory.ts";
import { expertShare, type BlockShare, type ServedModel } from "./served-model.ts";

/** What kernels reach. Prompts: large cuBLAS products; the shares are those of the inference planner's devices (decision 31). */
export const REACHED: ReachedShares = Object.freeze({
  /** Of the 16-bit peak, by matrices and by attention. */
  compute: 0.5,
  /** Of the data sheet's bandwidth. */
  memory: 0.8,
  /** Microseconds of a block's kernels beyond their work, launched as one graph: ten small ones. */
  blockUs: 10,
  /** Milliseconds of the engine's own work in each step: the choice of requests, sampling, answers. */
  stepMs: 1,
});

export interface ReachedShares {
  readonly compute: number;
  readonly memory: number;
  readonly blockUs: number;
  readonly stepMs: number;
}

export interface ServingGpu {
  readonly teraflops: number;
  readonly memoryGbs: number;
  readonly memoryGiB: number;
  /** Between GPUs of one tensor group, and between stages. */
  readonly inside: Way;
  /** Whether a tensor group reaches itself over NVLink. */
  readonly hasNvlink: boolean;
}

/** The work of one pass over a block. */
interface Work {
  /** Tokens that pass. */
  readonly tokens: number;
  /** Times that the weights are read. */
  readonly reads: number;
  /** Tokens that pass at once: each read finds as many. */
  readonly together: number;
  readonly promptPairs: number;
  readonly decodePairs: number;
  /** Tokens whose keys and values are read. */
  readonly earlier: number;
}

export interface PromptTime {
  /** From its first piece to the first token, alone. */
  readonly wholeMs: number;
  /** In which it keeps the slowest stage from others. */
  readonly busyMs: number;
}

export function promptTime(
  model: ServedModel,
  {
    gpu,
    stages,
    tokens,
  }: { readonly gpu: ServingGpu; readonly stages: number; readonly tokens: number },
): PromptTime {
  const pieces = Math.ceil(tokens / ENGINE.stepTokens);
  const times = stageTimes(model, {
    gpu,
    stages,
    answers: 1,
    work: {
      tokens,
      reads: pieces,
      together: Math.min(tokens, ENGINE.stepTokens),
      promptPairs: (tokens * (tokens + 1)) / 2,
      decodePairs: 0,
      earlier: (tokens * (pieces + 1)) / 2,
    },
  });
  return {
    wholeMs: times.reduce((sum, time) => sum + time, 0) + pieces * REACHED.stepMs,
    busyMs: Math.max(...times) + pieces * REACHED.stepMs,
  };
}

/** For one more token of each of `requests` requests, which have `earlier` tokens each. */
export function tokenMs(
  model: ServedModel,
  {
    gpu,
    stages,
    requests,
    earlier,
  }: {
    readonly gpu: ServingGpu;
    readonly stages: number;
    readonly requests: number;
    readonly earlier: number;
  },
): number {
  const batch = Math.max(1, requests / stages);
  const pairs = batch * earlier;
  const work = { tokens: batch, reads: 1, together: batch, promptPairs: 0, earlier: pairs };
  const times = stageTimes(model, {
    gpu,
    stages,
    answers: batch,
    work: { ...work, decodePairs: pairs },
  });
  return stages * (Math.max(...times) + REACHED.stepMs);
}

function stageTimes(
  model: ServedModel,
  {
    gpu,
    stages,
    work,
    answers,
  }: {
    readonly gpu: ServingGpu;
    readonly stages: number;
    readonly work: Work;
    readonly answers: number;
  },
): readonly number[] {
  const starts = stageStarts(model.blocks.length, stages);
  const { hidden } = model.shape;
  const bytes = 2 * work.tokens * hidden;
  const sums = allReduceMs(gpu, model.width, bytes / work.reads) * work.reads;
  const share = expertShare(model.shape, work.together);
  return Array.from({ length: stages }, (_, stage) => {
    let ms = 0;
    for (let at = starts[stage] ?? 0; at < (starts[stage + 1] ?? 0); at += 1) {
      const block = model.blocks[at];
      if (block !== undefined) ms += blockMs(block, { gpu, work, share }) + 2 * sums;
    }
    if (stage === stages - 1)
      return ms + rooflineMs(gpu, answers * model.headFlops, model.headBytes);
    return ms + work.reads * gpu.inside.latencyMs + bytes / (gpu.inside.gbs * 1e6);
  });
}

function blockMs(
  block: BlockShare,
  { gpu, work, share }: { readonly gpu: ServingGpu; readonly work: Work; readonly share: number },
): number {
  const weights = work.reads * (block.denseBytes + share * block.expertBytes);
  const pairs = work.promptPairs * block.promptPairFlops + work.decodePairs * block.decodePairFlops;
  return (
    rooflineMs(gpu, work.tokens * block.tokenFlops, weights) +
    rooflineMs(gpu, pairs, work.earlier * block.keyValueBytes) +
    (work.reads * REACHED.blockUs) / 1000
  );
}

const rooflineMs = ({ teraflops, memoryGbs }: ServingGpu, flops: number, bytes: number): number =>
  Math.max(flops / (teraflops * REACHED.compute * 1e9), bytes / (memoryGbs * REACHED.memory * 1e6));

function allReduceMs({ inside, hasNvlink }: ServingGpu, width: number, bytes: number): number {
  if (width === 1) return 0;
  const { gbs, latencyMs } = inside;
  const ms = bytes / (gbs * 1e6);
  const ring = (2 * (width - 1) * ms) / width;
  return hasNvlink
    ? Math.min(latencyMs + (width - 1) * ms, 2 * latencyMs + ring)
    : 2 * (width - 1) * latencyMs + ring;
}
