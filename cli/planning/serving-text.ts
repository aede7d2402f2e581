/** @file A serving plan as text: the choice, the times under load, the memory of each stage, the engine's arguments, the other splits. */

import type { ServingDocument } from "../../planning/serving/serving-document.ts";
import type { ServingSite } from "../../planning/serving/serving-site.ts";
import { tableText } from "../terminal/table.ts";

const OTHERS = 6;

export interface ServingView {
  readonly site: ServingSite;
  readonly width: number;
  /** Stated requests a second. */
  readonly ratePerS?: number;
}

export function servingPlanText(document: ServingDocument, view: ServingView): string {
  const { goal, notes } = document;
  const { hostGpus, gpuType } = view.site;
  const all = hostGpus.reduce((sum, gpus) => sum + gpus, 0);
  return [
    [
      `${document.model} by ${document.engine}, on ${document.gpus} of ${counted(all, `${gpuType} GPU`)}`,
      `TP ${document.tensorParallel} × PP ${document.pipelineParallel}, ${counted(document.replicas, "replica")}`,
      `requests of ${goal.promptTokens} + ${goal.outputTokens} tokens, the longest of ${goal.contextTokens}`,
    ].join("\n"),
    levelText(document, view.ratePerS),
    memoryTable(document, view.width),
    [
      document.engine,
      ...document.arguments.map((line) => `  ${line}`),
      ...Object.entries(document.environment).map(([name, value]) => `  ${name}=${value}`),
    ].join("\n"),
    ...notes,
    splitsTable(document, view.width),
  ].join("\n\n");
}

function levelText(document: ServingDocument, ratePerS: number | undefined): string {
  const { goal, ttftMs, tpotMs, isKept, baselineRatePerS } = document;
  const most = document.ratePerS.toFixed(1);
  const times = `TTFT ${ttftMs.toFixed(0)} of ${goal.ttftMs} ms, TPOT ${tpotMs.toFixed(1)} of ${goal.tpotMs} ms`;
  if (document.ratePerS === 0)
    return `No split keeps both times, even for a request alone; this one misses them least:\n${times}`;
  const at = ratePerS === undefined ? most : ratePerS.toFixed(1);
  const kept = isKept
    ? `99 requests in 100 at ${at} requests/s: ${times}`
    : `These GPUs do not keep both times at ${at} requests/s.`;
  const baseline =
    baselineRatePerS === undefined
      ? []
      : [
          `tensor parallelism over all GPUs of a host: up to ${baselineRatePerS.toFixed(1)} requests/s`,
        ];
  return [kept, `up to ${most} requests/s within both times`, ...baseline].join("\n");
}

const memoryTable = ({ memory }: ServingDocument, width: number): string =>
  tableText(
    ["STAGE", "WEIGHTS GIB", "ACTIVATIONS", "RESERVE", "KEYS+VALUES", "TOKENS"].map((title, at) =>
      at === 0 ? { title } : { title, isRight: true },
    ),
    memory.map(({ weightsGiB, activationsGiB, reserveGiB, keyValueGiB, tokens }, stage) => [
      String(stage),
      ...[weightsGiB, activationsGiB, reserveGiB, keyValueGiB].map((gib) => gib.toFixed(2)),
      String(tokens),
    ]),
    width,
  );

function splitsTable({ splits }: ServingDocument, width: number): string {
  const rows = [...splits]
    .sort((a, b) => b.ratePerS - a.ratePerS)
    .slice(0, OTHERS)
    .map((split) => [
      `TP ${split.tensorParallel} × PP ${split.pipelineParallel} × ${split.replicas}`,
      split.ratePerS.toFixed(1),
      split.aloneTtftMs.toFixed(0),
      split.aloneTpotMs.toFixed(1),
      String(split.tokens),
    ]);
  return tableText(
    ["ALL GPUS AS", "REQUESTS/S", "TTFT ALONE", "TPOT ALONE", "TOKENS"].map((title, at) =>
      at === 0 ? { title } : { title, isRight: true },
    ),
    rows,
    width,
  );
}

const counted = (count: number, noun: string): string =>
  `${count} ${noun}${count === 1 ? "" : "s"}`;
