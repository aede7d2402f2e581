/**
 * @file Large models on 1,024 GPUs over four sites, as `orbweaver plan job.yaml --fleet fleet.yaml` plans them: how long it takes, whether memory
 * holds, and what the links carry.
 *
 * Each site has 32 hosts of 8 H100 joined by NVLink (then by PCIe, as where the fleet file names no topology), a card of 400 Gbps a host, and a link of 100 Gbps and 30 ms to each other site. The shapes are
 * those of the models' published `config.json`. Memory is held against Megatron-LM's published formulas for the arguments that are printed, links
 * against the flow simulation; neither uses the planner's own sums. Time is the processor's.
 */

import { parseFleetYaml } from "../../domain/fleet/fleet-file.ts";
import type { Fleet } from "../../domain/fleet/fleet.ts";
import type { JobSpec } from "../../domain/job/job.ts";
import { parseJobYaml } from "../../domain/job/job-file.ts";
import { jobModel } from "../../domain/job/job-model.ts";
import { randomFrom } from "../../lib/random.ts";
import { jobSite } from "../../cli/planning/job-site.ts";
import { MEGATRON_CORE } from "../../planning/parallelism/framework.ts";
import { planDocument } from "../../planning/parallelism/plan-document.ts";
import { planModel } from "../../planning/parallelism/plan-operators.ts";
import { degreesText } from "../../planning/parallelism/split.ts";
import { presetModel } from "../../planning/parallelism/transformer-layers.ts";
import { solverFor } from "../../solvers/index.ts";
import { atMost, barOf, exactly, REPORTED, type Bar } from "../bar.ts";
import type { BenchTable } from "../bench.ts";
import { simulateStep } from "./flow-simulation.ts";
import { megatronFlags, publishedBytes } from "./published-memory.ts";
import { simulatedPlan } from "./simulated-plan.ts";

const SITES = ["east", "west", "north", "south"] as const;
const HOST_GPUS = 8;
const BATCH = 1024;
const GIB = 2 ** 30;
const SECONDS_AT_MOST = 20;

interface LargeModel {
  readonly name: string;
  readonly sequence: number;
  /** What counts of its config.json. */
  readonly config: Readonly<Record<string, unknown>>;
}

const GATED = { hidden_act: "silu", tie_word_embeddings: false } as const;

export const LARGE_MODELS: readonly LargeModel[] = [
  {
    name: "llama-3.1-405b",
    sequence: 8192,
    config: {
      ...GATED,
      model_type: "llama",
      ...{ hidden_size: 16_384, intermediate_size: 53_248, num_hidden_layers: 126 },
      ...{ num_attention_heads: 128, num_key_value_heads: 8, vocab_size: 128_256 },
      ...{ max_position_embeddings: 131_072, rope_theta: 500_000, rms_norm_eps: 1e-5 },
    },
  },
  {
    name: "deepseek-v3",
    sequence: 4096,
    config: {
      ...GATED,
      model_type: "deepseek_v3",
      ...{ hidden_size: 7168, intermediate_size: 18_432, num_hidden_layers: 61 },
      ...{ num_attention_heads: 128, num_key_value_heads: 128, vocab_size: 129_280 },
      ...{ max_position_embeddings: 163_840, rope_theta: 10_000, rms_norm_eps: 1e-6 },
      ...{ n_routed_experts: 256, num_experts_per_tok: 8, n_shared_experts: 1 },
      ...{ moe_intermediate_size: 2048, first_k_dense_replace: 3 },
      ...{ q_lora_rank: 1536, kv_lora_rank: 512 },
      ...{ qk_nope_head_dim: 128, qk_rope_head_dim: 64, v_head_dim: 128 },
    },
  },
];

export interface FourSitesPlan {
  readonly model: string;
  readonly degrees: string;
  /** Of a processor, from the two files to the plan. */
  readonly seconds: number;
  /** Predicted. */
  readonly stepMs: number;
  /** Of the fullest stage, predicted; by the formula, with what the planner reserves; of its card. */
  readonly memoryGiB: number;
  readonly publishedGiB: number;
  readonly cardGiB: number;
  /** Stages above their card, and those predicted below the formula. */
  readonly tooLarge: number;
  readonly below: number;
  /** Bytes over the busiest link ÷ its rate ÷ the predicted step. */
  readonly busiest: number;
  /** Predicted ÷ simulated. */
  readonly ratio: number;
}

export interface FourSites {
  /** Of each site. */
  readonly hosts: number;
  readonly batch: number;
  /** Whether the fleet file names the hosts' topology: without it GPUs count as joined by PCIe. */
  readonly hasTopology: boolean;
}

export async function planOverSites(
  { name, sequence, config }: LargeModel,
  { hosts, batch, hasTopology }: FourSites,
): Promise<FourSitesPlan> {
  const started = process.cpuUsage();
  const job = jobOf(
    [
      `name: ${name}`,
      "class: training",
      `constraints: { maxClusters: ${String(SITES.length)} }`,
      `gang: ${String(SITES.length * hosts * HOST_GPUS)}`,
      `modelConfig: ${JSON.stringify(config)}`,
      `sequence: ${String(sequence)}`,
      `batch: ${String(batch)}`,
      "run: { command: [train] }",
      "",
    ].join("\n"),
  );
  const said = jobModel(job);
  const site = jobSite(fleetOfSites(hosts, hasTopology), job);
  if (said === undefined || site === undefined) throw new Error(`${name} is not placed`);
  const { answer, model } = await planModel({
    model: presetModel(said.name, said.shape),
    site,
    batch,
    framework: "megatron",
    random: randomFrom(1, "plan"),
    solver: solverFor,
  });
  const { user, system } = process.cpuUsage(started);
  if (answer.kind === "blocked") throw new Error(`${name}: ${answer.message}`);
  const { split, stepMs, parts, stages } = answer.plan;
  const flags = megatronFlags(planDocument(answer.plan, site, model.shape).arguments.megatron);
  const memory = stages.map(({ memoryGiB, memory: { reserveGiB }, cardGiB }, stage) => ({
    memoryGiB,
    cardGiB,
    publishedGiB: publishedBytes(flags, stage, split.replicas) / GIB + reserveGiB,
  }));
  const fullest = memory.reduce((a, b) => (b.memoryGiB > a.memoryGiB ? b : a));
  const simulated = simulateStep(
    simulatedPlan({ model, site, split, gradientBytes: MEGATRON_CORE.gradientBytes }),
  );
  return {
    model: hasTopology ? name : `${name}, PCIe`,
    degrees: degreesText(split),
    seconds: (user + system) / 1e6,
    stepMs,
    ...fullest,
    tooLarge: memory.filter(
      ({ memoryGiB, publishedGiB, cardGiB }) => Math.max(memoryGiB, publishedGiB) > cardGiB,
    ).length,
    below: memory.filter(({ memoryGiB, publishedGiB }) => memoryGiB < publishedGiB).length,
    busiest: simulated.busiestLinkMs / stepMs,
    ratio: stepMs / (simulated.stepMs + parts.updateMs),
  };
}

export async function measureFourSites(
  say: (line: string) => void,
): Promise<{ readonly bars: readonly Bar[]; readonly table: BenchTable }> {
  const plans: FourSitesPlan[] = [];
  for (const hasTopology of [true, false])
    for (const model of LARGE_MODELS) {
      const where = hasTopology ? "" : ", no topology stated";
      say(`plan: ${model.name} on 1,024 GPUs over four sites${where}`);
      const hosts = 1024 / SITES.length / HOST_GPUS;
      plans.push(await planOverSites(model, { hosts, batch: BATCH, hasTopology }));
    }
  const sum = (of: (plan: FourSitesPlan) => number): number =>
    plans.reduce((total, plan) => total + of(plan), 0);
  return {
    bars: [
      barOf({
        id: "four-sites-time",
        unit: "s",
        target: atMost(SECONDS_AT_MOST),
        got: Math.max(...plans.map(({ seconds }) => seconds)),
        note: `processor time of a plan on 1,024 GPUs over four sites: ${plans.map(({ model, seconds }) => `${model} ${seconds.toFixed(1)}`).join(", ")}`,
      }),
      barOf({
        id: "four-sites-memory",
        unit: "stages",
        target: exactly(0),
        got: sum(({ tooLarge, below }) => tooLarge + below),
        note: "above their card, predicted or by Megatron-LM's published formulas, or predicted below these",
      }),
      barOf({
        id: "four-sites-busiest-link",
        unit: "%",
        target: atMost(100),
        got: 100 * Math.max(...plans.map(({ busiest }) => busiest)),
        note: "bytes of the flow simulation over a link ÷ its rate, as a share of the predicted step",
      }),
      barOf({
        id: "four-sites-step-to-simulated",
        unit: "×",
        target: REPORTED,
        got: Math.max(...plans.map(({ ratio }) => ratio)),
      }),
    ],
    table: {
      title: "1,024 H100 over four sites",
      columns: ["MODEL", "DEGREES", "SECONDS", "STEP S", "GIB", "PUBLISHED", "CARD", "BUSIEST %"],
      rows: plans.map((plan) => [
        plan.model,
        plan.degrees,
        plan.seconds.toFixed(1),
        (plan.stepMs / 1000).toFixed(1),
        plan.memoryGiB.toFixed(1),
        plan.publishedGiB.toFixed(1),
        plan.cardGiB.toFixed(0),
        (100 * plan.busiest).toFixed(1),
      ]),
    },
  };
}

function jobOf(text: string): JobSpec {
  const parsed = parseJobYaml(text, { file: "job.yaml" });
  if (parsed.kind === "refused") throw new Error(JSON.stringify(parsed.problems));
  return parsed.spec;
}

/** As `nvidia-smi topo -m` shows eight GPUs behind NVSwitch. */
const MATRIX = [
  ["", ...Array.from({ length: HOST_GPUS }, (_, gpu) => `GPU${String(gpu)}`)],
  ...Array.from({ length: HOST_GPUS }, (_, gpu) => [
    `GPU${String(gpu)}`,
    ...Array.from({ length: HOST_GPUS }, (_other, other) => (other === gpu ? "X" : "NV18")),
  ]),
]
  .map((row) => `${row.join("\t")}\n`)
  .join("");

function fleetOfSites(hosts: number, hasTopology: boolean): Fleet {
  const links = SITES.flatMap((from, at) =>
    SITES.slice(at + 1).map(
      (to) => `  - { between: [${from}, ${to}], bandwidth: 100 Gbps, latency: 30ms }`,
    ),
  );
  const clusters = SITES.flatMap((name) => [
    `  - name: ${name}`,
    `    site: ${name}`,
    "    jurisdiction: EU",
    "    fabric: { bandwidth: 400 Gbps }",
    `    hosts: [{ name: "h[1-${String(hosts)}]", gpus: ${String(HOST_GPUS)}, type: H100${hasTopology ? ", topology: topo.txt" : ""} }]`,
  ]);
  const text = ["name: four", "links:", ...links, "clusters:", ...clusters, ""].join("\n");
  const read = parseFleetYaml(text, {
    file: "fleet.yaml",
    read: () => ({ kind: "text", text: MATRIX }),
  });
  if (read.kind === "refused") throw new Error(JSON.stringify(read.problems));
  return read.fleet;
}
