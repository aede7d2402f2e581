/**
 * @file Pipelines of models' graphs: whether the stages of each cut are one, and how slow the slowest stage is beside the best known.
 *
 * Stages are alike, joined at `LINK_GBS`; each has room for twice its share, or for the largest operator and a quarter more. Every cut is checked
 * anew (no edge goes back, every operator once, memory) before it counts. The best known is the least of `data/plan/pipeline-references.json`
 * (ideals of the graph where these are few, which is exact; else long runs) and of this run.
 */

import { readdirSync, readFileSync } from "node:fs";
import { randomFrom } from "../../lib/random.ts";
import { pipelineCut, type PipelineEffort } from "../../planning/parallelism/pipeline-cut.ts";
import { pipelineGraph } from "../../planning/parallelism/pipeline-graph.ts";
import { checkPipeline, type PipelineTask } from "../../planning/parallelism/pipeline-stages.ts";
import type { ModelGraph } from "../../domain/model/model-graph.ts";
import { atMost, barOf, exactly, REPORTED, type Bar } from "../bar.ts";
import type { BenchTable } from "../bench.ts";
import { idealBottleneck } from "../rivals/parallelism/ideal-cut.ts";
import { mean } from "../statistics.ts";
import { dataPath, textOf } from "./files.ts";
import { modelGraphOf } from "./graphs.ts";

const LINK_GBS = 12;
const STAGE_COUNTS = [4, 8, 16] as const;
/** Bytes held for a byte of a 32-bit parameter: 18 for a parameter in mixed precision. */
const HELD_PER_PARAMETER_BYTE = 4.5;

export interface PipelineFound {
  readonly id: string;
  readonly stages: number;
  readonly slowestMs: number;
  readonly bestKnownMs: number;
  readonly ratio: number;
  readonly cpuS: number;
  /** The stage of each operator of a graph of the user's own. */
  readonly assignment?: readonly (readonly [operator: string, stage: number])[];
}

export interface Pipelines {
  readonly bars: readonly Bar[];
  readonly tables: readonly BenchTable[];
  readonly found: readonly PipelineFound[];
}

/** The graphs of models that come with Orbweaver. */
export function measurePipelines(say: (line: string) => void): Pipelines {
  const references = readReferences();
  const found: PipelineFound[] = [];
  const faults: string[] = [];
  for (const folder of ["msr", "pipedream"]) {
    for (const file of readdirSync(dataPath(`model-graphs/${folder}`)).sort()) {
      const graph = readOperators(dataPath(`model-graphs/${folder}/${file}`), file);
      if (graph === undefined) continue;
      for (const stages of STAGE_COUNTS) {
        const id = `${folder}/${file}/${stages}`;
        const one = cutOnce(graph, { id, stages, knownMs: references.get(id) ?? Infinity });
        if (typeof one === "string") faults.push(`${id}: ${one}`);
        else found.push(one);
      }
      say(`${folder}/${file}: ${graph.nodes.length} operators in pipelines`);
    }
  }
  const ratios = found.map(({ ratio }) => ratio);
  const note = `${found.length} pipelines checked${faults.length === 0 ? "" : `; ${faults.join("; ")}`}`;
  return {
    bars: [
      barOf({ id: "pipelines-faulty", unit: "cuts", target: exactly(0), got: faults.length, note }),
      barOf({
        id: "pipelines-worst",
        unit: "×",
        target: atMost(1.05),
        got: Math.max(...ratios),
        note: "slowest stage ÷ best known",
      }),
      barOf({ id: "pipelines-mean", unit: "×", target: REPORTED, got: mean(ratios) }),
      barOf({
        id: "pipelines-cpu",
        unit: "s",
        target: REPORTED,
        got: Math.max(...found.map(({ cpuS }) => cpuS)),
      }),
    ],
    tables: [pipelineTable("Pipelines of models' graphs", found)],
    found,
  };
}

/** A graph of the user's own: beside the optimum over its ideals, or ten times the work. */
export function measureOwnPipelines(graph: ModelGraph, counts: readonly number[]): Pipelines {
  const found: PipelineFound[] = [];
  const bars: Bar[] = [];
  for (const stages of counts) {
    const knownMs = longRun(pipelineTask(graph, stages));
    const one = cutOnce(graph, { id: `own/${stages}`, stages, knownMs, isOwn: true });
    const isFound = typeof one !== "string";
    if (isFound) found.push(one);
    bars.push(
      barOf({
        id: `pipeline-${stages}`,
        unit: "×",
        target: atMost(1.05),
        got: isFound ? one.ratio : NaN,
        note: isFound
          ? `slowest stage ${one.slowestMs.toPrecision(6)} ms, best known ${one.bestKnownMs.toPrecision(6)}`
          : one,
      }),
    );
  }
  return { bars, tables: [pipelineTable(graph.name, found)], found };
}

function pipelineTable(title: string, found: readonly PipelineFound[]): BenchTable {
  return {
    title: `${title}: slowest stage, each cut checked`,
    columns: ["GRAPH AND STAGES", "MS", "BEST KNOWN", "RATIO", "CPU S"],
    rows: found.map(({ id, slowestMs, bestKnownMs, ratio, cpuS }) => [
      id,
      slowestMs.toPrecision(5),
      bestKnownMs.toPrecision(5),
      ratio.toFixed(4),
      cpuS.toFixed(2),
    ]),
  };
}

interface Once {
  readonly id: string;
  readonly stages: number;
  readonly knownMs: number;
  readonly isOwn?: boolean;
}

function cutOnce(
  graph: ModelGraph,
  { id, stages, knownMs, isOwn = false }: Once,
): PipelineFound | string {
  const task = pipelineTask(graph, stages);
  const started = process.cpuUsage();
  const answer = pipelineCut({ task, random: randomFrom(1, "pipeline") });
  const { user, system } = process.cpuUsage(started);
  if (answer.kind === "blocked") return answer.message;
  const fault = checkPipeline(task, answer.pick);
  if (fault !== undefined) return fault;
  const slowestMs = answer.pick.bottleneckMs;
  const bestKnownMs = Math.min(knownMs, slowestMs);
  const assignment = task.graph.members.flatMap((members, operator) =>
    members.map(
      (node) => [graph.nodes[node]?.id ?? "", answer.pick.stageOf[operator] ?? 0] as const,
    ),
  );
  return {
    ...{ id, stages, slowestMs, bestKnownMs },
    ratio: bestKnownMs > 0 ? slowestMs / bestKnownMs : 1,
    cpuS: (user + system) / 1e6,
    ...(isOwn && { assignment }),
  };
}

const LONG_RUN: PipelineEffort = { drawn: 40, starts: 6, steps: 500_000 };
const MOST_IDEALS = 4_000;

function longRun(task: PipelineTask): number {
  const answer = pipelineCut({ task, random: randomFrom(2, "pipeline"), effort: LONG_RUN });
  if (answer.kind === "blocked") return Infinity;
  const knownMs = answer.pick.bottleneckMs;
  return idealBottleneck(task, { knownMs, mostIdeals: MOST_IDEALS }) ?? knownMs;
}

export function pipelineTask(graph: ModelGraph, stages: number): PipelineTask {
  const operators = pipelineGraph(graph);
  const held = operators.members.map(
    (_, operator) =>
      HELD_PER_PARAMETER_BYTE * (operators.parameterBytes[operator] ?? 0) +
      (operators.keptBytes[operator] ?? 0),
  );
  const share = held.reduce((sum, bytes) => sum + bytes, 0) / stages;
  const memoryBytes = Math.max(2 * share, 1.25 * Math.max(...held));
  return {
    graph: operators,
    stages: Array.from({ length: stages }, () => ({
      ...{ speed: 1, memoryBytes, inFlight: 1 },
      msPerByte: 1 / (LINK_GBS * 1e6),
    })),
    heldPerParameterByte: HELD_PER_PARAMETER_BYTE,
  };
}

/** Undefined of a graph without directions. */
export const readOperators = (path: string, file: string): ModelGraph | undefined =>
  modelGraphOf(textOf(path), file);

function readReferences(): ReadonlyMap<string, number> {
  const text = readFileSync(dataPath("plan/pipeline-references.json"), "utf8");
  const read: { readonly pipelines: Readonly<Record<string, readonly [number, string]>> } =
    JSON.parse(text);
  return new Map(Object.entries(read.pipelines).map(([id, [ms]]) => [id, ms]));
}
