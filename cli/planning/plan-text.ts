/** @file A parallelism plan as text: the choice, the needs of each stage, the parts of a step's time, and the alternatives. */

import { planDocument, planLine } from "../../planning/parallelism/plan-document.ts";
import { degreesText } from "../../planning/parallelism/split.ts";
import { parameterCount, type PlanModel } from "../../planning/parallelism/models.ts";
import type { TrainingPlan } from "../../planning/parallelism/plan.ts";
import {
  correctedText,
  type StepCorrections,
} from "../../planning/parallelism/step-corrections.ts";
import type { PlanSite } from "../../planning/parallelism/site.ts";
import type { MemoryParts } from "../../planning/parallelism/memory-parts.ts";
import type { StepParts } from "../../planning/parallelism/step-time.ts";
import { tableText } from "../terminal/table.ts";
import { layersText } from "./layers-text.ts";

export interface Planned {
  readonly model: PlanModel;
  readonly site: PlanSite;
  readonly plan: TrainingPlan;
  readonly corrections: StepCorrections;
}

const OTHERS = 5;

export function planText(planned: Planned, width: number): string {
  const { model, site, plan, corrections } = planned;
  const clusters = new Set(site.hosts.map(({ cluster }) => cluster)).size;
  const gpus = site.hosts.reduce((sum, { gpuCount }) => sum + gpuCount, 0);
  const {
    arguments: launch,
    notes,
    assumed,
    hosts: [lead],
    idleGpus: idle,
  } = planDocument(plan, site, model.shape);
  const head = [
    ...(assumed.length === 0
      ? []
      : [`Assumed, since nobody stated it: ${assumed.join("; ")}.${statedBy(assumed)}`]),
    `${plan.model}: ${billions(parameterCount(model))} parameters, batch ${plan.batch} (a sample is a ${model.sample})`,
    `${counted(gpus, "GPU")} on ${counted(site.hosts.length, "host")} in ${counted(clusters, "cluster")}`,
    planLine(plan),
    ...(corrections.runs === 0 ? [] : [`The prediction is ${correctedText(corrections)}.`]),
    ...(idle === 0
      ? []
      : [`${counted(idle, "GPU")} of these would make the step longer: ask for ${gpus - idle}.`]),
    ...(lead === undefined || lead === site.hosts[0]?.id
      ? []
      : [`Ranks begin on ${lead}, which holds the first stage: MASTER_ADDR is to point there.`]),
  ];
  return [
    head.join("\n"),
    layersText(model, width),
    stagesTable(planned, width),
    memoryTable(plan, width),
    timeTable(plan, width),
    ["Why", ...reasons(planned).map((line) => `  ${line}`)].join("\n"),
    ...(plan.others.length > 0 ? [othersTable(plan, width)] : []),
    ...(launch.megatron.length > 0
      ? [["Megatron-LM", ...launch.megatron.map((line) => `  ${shellText(line)}`)].join("\n")]
      : []),
    ...notes,
    ...(launch.deepspeed === undefined ? [] : [`DeepSpeed\n  ${JSON.stringify(launch.deepspeed)}`]),
    ...(launch.fsdp2 === undefined ? [] : [`FSDP2\n  ${JSON.stringify(launch.fsdp2)}`]),
  ].join("\n\n");
}

/** How to state what was assumed; inside a host nothing does. */
function statedBy(assumed: readonly string[]): string {
  const flags = [
    ...(assumed.some((line) => /network card/.test(line)) ? ["--fabric"] : []),
    ...(assumed.some((line) => / ms between /.test(line)) ? ["--wan"] : []),
  ];
  return flags.length === 0 ? "" : ` State ${flags.join(" and ")}, or a fleet file.`;
}

/** A layout has characters that a shell would read otherwise. */
const shellText = (argument: string): string =>
  argument
    .split(" ")
    .map((word) => (/[|*()]/.test(word) ? `'${word}'` : word))
    .join(" ");

function stagesTable({ model, site, plan }: Planned, width: number): string {
  const { split } = plan;
  const rows = plan.stages.map(({ runs, parameters, memoryGiB, cardGiB }, stage) => {
    const cells = split.cells.slice(stage * split.replicas, (stage + 1) * split.replicas);
    const byHost = new Map<string, number>();
    for (const { host, width: gpus } of cells) {
      const id = site.hosts[host]?.id ?? "";
      byHost.set(id, (byHost.get(id) ?? 0) + gpus);
    }
    const named = ([from, to]: readonly [number, number]): string => {
      const [first, last] = [model.layers[from]?.name ?? "", model.layers[to - 1]?.name ?? ""];
      return first === last ? first : `${first} – ${last}`;
    };
    return [
      String(stage),
      runs.map(named).join(", "),
      billions(parameters),
      `${memoryGiB.toFixed(1)} of ${cardGiB}`,
      [...byHost].map(([id, gpus]) => `${id}:${gpus}`).join(" "),
    ];
  });
  return tableText(
    [
      { title: "STAGE" },
      { title: "LAYERS", least: 16 },
      { title: "PARAMETERS", isRight: true },
      { title: "GIB A GPU", isRight: true },
      { title: "GPUS", least: 12 },
    ],
    rows,
    width,
  );
}

const MEMORY: readonly (readonly [keyof MemoryParts, string])[] = [
  ["weightsGiB", "WEIGHTS"],
  ["gradientsGiB", "GRADIENTS"],
  ["optimizerGiB", "OPTIMISER"],
  ["activationsGiB", "ACTIVATIONS"],
  ["workingGiB", "WORKING"],
  ["reserveGiB", "RESERVE"],
];

function memoryTable(plan: TrainingPlan, width: number): string {
  return tableText(
    [{ title: "STAGE" }, ...MEMORY.map(([, title]) => ({ title, isRight: true }))],
    plan.stages.map(({ memory }, stage) => [
      String(stage),
      ...MEMORY.map(([part]) => memory[part].toFixed(2)),
    ]),
    width,
  );
}

const PARTS: readonly (readonly [keyof StepParts, string])[] = [
  ["computeMs", "compute"],
  ["bubbleMs", "waiting in the pipeline"],
  ["tensorMs", "all-reduce within layers"],
  ["exchangeMs", "tokens to experts, keys and values"],
  ["sendMs", "between stages"],
  ["reduceMs", "all-reduce of gradients"],
  ["updateMs", "update"],
];

function timeTable({ parts, stepMs }: TrainingPlan, width: number): string {
  // Less than is shown may be rounding.
  const rows = PARTS.filter(([part]) => parts[part] >= 0.05).map(([part, title]) => [
    title,
    parts[part].toFixed(1),
    `${((100 * parts[part]) / stepMs).toFixed(0)} %`,
  ]);
  return tableText(
    [
      { title: "TIME OF A STEP" },
      { title: "MS", isRight: true },
      { title: "SHARE", isRight: true },
    ],
    rows,
    width,
  );
}

/** From the figures of this plan and of those that lost. */
export function reasons({ model, site, plan }: Planned): readonly string[] {
  const { split, others } = plan;
  const lines = split.stages === 1 ? [] : [`arrangement: ${plan.arrangement}`];
  if (plan.framework !== "megatron")
    lines.push(`every GPU is a replica, as ${plan.framework} trains: ${shardedText(split)}`);
  else if (split.width === 1 && model.splitOf > 1 && split.stages * split.replicas > 1)
    lines.push(
      site.hosts.some(({ nvlinkGpus }) => nvlinkGpus > 1)
        ? "layers are not split over GPUs: their all-reduces would cost more than they save"
        : "layers are not split over GPUs: none here share NVLink",
    );
  if (split.experts !== undefined)
    lines.push(
      `experts are shared out over ${split.experts} replicas: less memory for each, and tokens travel to their experts`,
    );
  if (split.contexts !== undefined)
    lines.push(
      `each sequence is shared out over ${split.contexts} ${split.width === 1 ? "GPUs" : "units of GPUs"}: less of it is kept by each, and keys and values travel around a ring`,
    );
  if (split.runs !== undefined)
    lines.push(
      `each stage has ${split.runs} runs of layers (interleaved): the pipeline fills in 1/${split.runs} of the time, and sends ${split.runs} times as often`,
    );
  if (split.isRecomputing)
    lines.push("activations are computed again: they would not fit otherwise");
  if (split.isRecomputingScores === true)
    lines.push("attention's scores are computed again: these GPUs have no fused attention");
  if (split.isSharded && plan.framework === "megatron")
    lines.push("optimiser state is sharded over the replicas: less memory, and less is sent");
  const [next] = others;
  if (next !== undefined) {
    const worse = PARTS.map(([part, title]) => ({ title, by: next.parts[part] - plan.parts[part] }))
      .sort((a, b) => b.by - a.by)
      .find(({ by }) => by > 0);
    const more = 100 * (next.stepMs / plan.stepMs - 1);
    const slower = more < 1 ? "less than 1" : more.toFixed(0);
    lines.push(
      `next best: ${degreesText(next.split)}, ${slower} % slower${worse === undefined ? "" : `, most of it ${worse.title} (+${worse.by.toFixed(0)} ms)`}`,
    );
  }
  return lines;
}

const shardedText = ({ isSharded, shards }: TrainingPlan["split"]): string =>
  shards === "parameters"
    ? "parameters are gathered layer by layer for each micro-batch"
    : shards === "gradients"
      ? "gradients are summed for each micro-batch, and parameters kept whole"
      : isSharded
        ? "only optimiser state is sharded"
        : "nothing is sharded";

function othersTable({ others }: TrainingPlan, width: number): string {
  const columns = ["OTHER SPLITS", "MS A STEP", "COMPUTE", "WAITING", "SENDING", "ALL-REDUCE"];
  const rows = others
    .slice(0, OTHERS)
    .map(({ split, stepMs, parts }) => [
      degreesText(split),
      stepMs.toFixed(0),
      parts.computeMs.toFixed(0),
      parts.bubbleMs.toFixed(0),
      (parts.sendMs + parts.exchangeMs).toFixed(0),
      (parts.reduceMs + parts.tensorMs).toFixed(0),
    ]);
  return tableText(
    columns.map((title, at) => (at === 0 ? { title } : { title, isRight: true })),
    rows,
    width,
  );
}

const billions = (count: number): string =>
  count >= 1e9 ? `${(count / 1e9).toFixed(2)} billion` : `${(count / 1e6).toFixed(1)} million`;

const counted = (count: number, noun: string): string =>
  `${count} ${noun}${count === 1 ? "" : "s"}`;
