/**
 * @file The planner's search beside the best of all splits (bench/rivals/parallelism/every-split.ts), on drawn sites of at most 32 GPUs: step times, and how long the
 * search takes.
 *
 * Sites have one to three clusters of hosts with 1, 2, 4 or 8 GPUs of one type or two, with NVLink or PCIe, fabrics from 1 to 100 GB/s and links of 0.3 to 12.5
 * GB/s between clusters. Models are dense ones of 0.1 to 70 billion parameters and mixtures of 8 experts, on sequences of 512 to 131,072 tokens and
 * batches from 1 to 256. Cases in which nothing fits are drawn anew; where the oracle finds a plan, the search must.
 */

import { MODEL_PRESETS } from "../../domain/model/model-presets.ts";
import type { TransformerShape } from "../../domain/model/transformer-shape.ts";
import { randomFrom, type Random } from "../../lib/random.ts";
import type { Way } from "../../planning/parallelism/site.ts";
import { planTraining } from "../../planning/parallelism/plan.ts";
import { degreesText, type Split } from "../../planning/parallelism/split.ts";
import { presetModel } from "../../planning/parallelism/transformer-layers.ts";
import { solverFor } from "../../solvers/index.ts";
import { atLeast, atMost, barOf, type Bar } from "../bar.ts";
import type { BenchTable } from "../bench.ts";
import { bestOfEverySplit, type SplitCase } from "../rivals/parallelism/every-split.ts";
import { mean, quantile } from "../statistics.ts";

const MOST_GPUS = 32;
const CASES = 100;

const LEAST_RATE = 0.99;

const CARDS = [
  { gpuType: "V100-32", memoryGiB: 32, teraflops: 125, nvlinkGbs: 112 },
  { gpuType: "A40", memoryGiB: 48, teraflops: 150, nvlinkGbs: 0 },
  { gpuType: "A100", memoryGiB: 80, teraflops: 312, nvlinkGbs: 225 },
  { gpuType: "H100", memoryGiB: 80, teraflops: 989, nvlinkGbs: 337 },
] as const;
const PCIE: Way = { gbs: 12, latencyMs: 0.02 };

const DENSE = [
  "bert-340m",
  "gpt2-350m",
  "gpt2-1.3b",
  "gpt2-4.2b",
  "opt-6.7b",
  "opt-13b",
  "llama-7b",
  "llama-13b",
  "llama-70b",
  "llama-3-8b",
  "llama-3-70b",
] as const;
const LONGER = [1, 1, 1, 4, 16] as const;
const BATCHES = [1, 4, 8, 12, 16, 24, 32, 64, 96, 128, 256] as const;
const HOST_GPUS = [1, 2, 4, 4, 8, 8] as const;

export async function measureSplits(
  seed: number,
  say: (line: string) => void,
): Promise<{ readonly bars: readonly Bar[]; readonly table: BenchTable }> {
  const judged: JudgedSplit[] = [];
  let left = 0;
  for (let draw = 0; judged.length < CASES; draw += 1) {
    const { name, ...of } = drawSplitCase(randomFrom(seed, `split ${String(draw)}`));
    const found = await judgeSplit(name, of);
    if (found === undefined) left += 1;
    else judged.push(found);
    // Cases take long, and whoever interrupts waits for the next word.
    say(`plan: ${String(judged.length)} of ${String(CASES)} splits judged`);
  }
  const rates = judged.map(({ rate }) => rate);
  const seconds = judged.map(({ seconds: own }) => own);
  const missed = judged.filter(({ rate }) => rate < LEAST_RATE);
  return {
    bars: [
      barOf({
        id: "splits-worst",
        unit: "%",
        target: atLeast(100 * LEAST_RATE),
        got: 100 * Math.min(...rates),
        note: `rate of the plan found ÷ best of all splits, the worst of ${String(CASES)} cases; mean ${(100 * mean(rates)).toFixed(2)}, below: ${String(missed.length)}; nothing fitted in ${String(left)} more`,
      }),
      barOf({
        id: "splits-search",
        unit: "s",
        target: atMost(2),
        got: Math.max(...seconds),
        note: `processor time of the longest search; median ${quantile(seconds, 0.5).toFixed(2)}`,
      }),
    ],
    table: {
      title: "Cases whose best split is faster than the plan found",
      columns: ["CASE", "RATE %", "SECONDS", "BEST", "FOUND"],
      rows: judged
        .filter(({ best }) => best !== undefined)
        .map(({ name, rate, seconds: own, best, found }) => [
          name,
          (100 * rate).toFixed(2),
          own.toFixed(2),
          ...[best, found].map((split) => (split === undefined ? "" : degreesText(split))),
        ]),
    },
  };
}

export interface JudgedSplit {
  readonly name: string;
  /** The best step ÷ the search's, at most 1; 0 where only the oracle finds a plan. */
  readonly rate: number;
  /** Of a processor, of the search. */
  readonly seconds: number;
  readonly oracleSeconds: number;
  /** Splits that could have been better, by their floors. */
  readonly fitting: number;
  /** Absent where nothing is better than what was found. */
  readonly best?: Split;
  readonly found?: Split;
}

const secondsSince = (before: NodeJS.CpuUsage): number => {
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1e6;
};

/** Undefined where nothing fits. */
export async function judgeSplit(
  name: string,
  { model, site, batch }: SplitCase,
): Promise<JudgedSplit | undefined> {
  const before = process.cpuUsage();
  const answer = await planTraining({
    ...{ model, site, batch },
    random: randomFrom(1, "plan"),
    solver: solverFor,
  });
  const seconds = secondsSince(before);
  const later = process.cpuUsage();
  const plan = answer.kind === "planned" ? answer.plan : undefined;
  const { best, fitting } = bestOfEverySplit({ model, site, batch }, plan?.stepMs);
  if (plan === undefined && best === undefined) return undefined;
  return {
    ...{ name, seconds, fitting, oracleSeconds: secondsSince(later) },
    rate: plan === undefined ? 0 : (best?.stepMs ?? plan.stepMs) / plan.stepMs,
    ...(best !== undefined && { best: best.split }),
    ...(plan !== undefined && { found: plan.split }),
  };
}

export function drawSplitCase(random: Random): SplitCase & { readonly name: string } {
  const of = <T>(list: readonly T[]): T => {
    const one = list[random.below(list.length)];
    if (one === undefined) throw new RangeError("an empty list");
    return one;
  };
  const isMixed = random.unit() < 0.2;
  const [first, second] = [of(CARDS), of(CARDS)];
  const clusters = 1 + random.below(3);
  const fabricGbs = of([1, 3, 12.5, 25, 50, 100]);
  const wan: Way = { gbs: of([0.3, 1.25, 5, 12.5]), latencyMs: of([1, 10, 30]) };
  const gpuCount = of(HOST_GPUS);
  const isUneven = random.unit() < 0.15;
  const most = of([8, 16, 24, 32, 32, MOST_GPUS]);
  const counts: number[] = [];
  for (let left = most; left > 0;) {
    const next = Math.min(left, isUneven && counts.length > 0 ? of(HOST_GPUS) : gpuCount);
    counts.push(next);
    left -= next;
  }
  const hosts = counts.map((count, at) => {
    const cluster = Math.floor((at * clusters) / counts.length);
    const { gpuType, memoryGiB, teraflops, nvlinkGbs } =
      isMixed && cluster % 2 === 1 ? second : first;
    return {
      id: `c${String(cluster)}/h${String(at)}`,
      cluster: `c${String(cluster)}`,
      ...{ gpuType, memoryGiB, teraflops, gpuCount: count },
      inside: nvlinkGbs > 0 ? { gbs: nvlinkGbs, latencyMs: 0.01 } : PCIE,
      nvlinkGpus: nvlinkGbs > 0 ? count : 1,
    };
  });
  const batch = of(BATCHES);
  const longer = of(LONGER);
  const preset = random.unit() < 0.15 ? "experts" : of(DENSE);
  const shape = preset === "experts" ? EXPERTS : MODEL_PRESETS.get(preset);
  if (shape === undefined) throw new RangeError(preset);
  // Tables of positions end where they end.
  const sequence = shape.positions > 0 ? shape.sequence : longer * shape.sequence;
  return {
    name: `${preset} × ${String(sequence)}, batch ${String(batch)}, ${[...new Set(hosts.map(({ gpuType }) => gpuType))].join(" and ")} ${counts.join("+")} in ${String(clusters)}, ${String(fabricGbs)} and ${String(wan.gbs)} GB/s`,
    model: presetModel(preset, { ...shape, sequence }),
    site: { hosts, fabric: () => ({ gbs: fabricGbs, latencyMs: 0.05 }), between: () => wan },
    batch,
  };
}

/** A mixture as large as its blocks of attention allow on few cards. */
const EXPERTS: TransformerShape = {
  ...{ family: "mixtral", layers: 16, hidden: 2048, heads: 16, keyValueHeads: 8, headSize: 128 },
  ...{ feedForward: 7168, vocabulary: 32_000, positions: 0, sequence: 4096, maxTokens: 65_536 },
  ...{ activation: "swiglu", norm: "rms", normEpsilon: 1e-5, biases: "none", isTied: false },
  ...{ isEncoder: false, ropeBase: 1e6 },
  experts: { count: 8, chosen: 2, feedForward: 7168, sharedFeedForward: 0, denseLayers: 0 },
};
