/** @file The tables of a report: each policy's figures in one row, waits by class, where the GPU time went, tenants, and notes on the workload. */

import { JOB_CLASSES } from "../../domain/job/job.ts";
import type { GpuSeconds, SimulationResult } from "../result.ts";
import { grouped, shareText, shortNumber, timeSpanText } from "./amounts.ts";
import { escaped } from "./escaped.ts";

export function summaryTable(results: readonly SimulationResult[]): string {
  const head = [
    "policy",
    "utilisation",
    "at best spread",
    "occupancy",
    "training lost",
    "preemptions",
    "degraded grants",
    "starved jobs",
    "longest wait",
    "ended",
  ];
  const rows = results.map((result) => [
    result.policy,
    shareText(result.utilisation),
    shareText(result.utilisationAtBestSpread),
    shareText(result.occupancy),
    shareText(result.trainingLost),
    grouped(result.preemption.evictions + result.preemption.shrinks),
    grouped(result.degradation.grants),
    result.starved.boundMs === null ? "no bound" : grouped(result.starved.jobs),
    timeSpanText(result.starved.longestWaitMs),
    `${grouped(result.jobs.ended)} of ${grouped(result.jobs.submitted)}`,
  ]);
  return tableHtml(head, rows);
}

export function waitTable(results: readonly SimulationResult[]): string {
  const head = [
    "class",
    "policy",
    "requests",
    "mean",
    "p50",
    "p90",
    "p99",
    "longest",
    "completion, mean",
  ];
  const rows = JOB_CLASSES.flatMap((name) =>
    results.flatMap(({ policy, classes }) => {
      const figures = classes.find((one) => one.name === name);
      if (figures === undefined || figures.wait.count === 0) return [];
      const { count, mean, p50, p90, p99, max } = figures.wait;
      const times = [mean, p50, p90, p99, max, figures.completion.mean].map(timeSpanText);
      return [[name, policy, grouped(count), ...times]];
    }),
  );
  return tableHtml(head, rows, 2);
}

const USES: readonly (readonly [keyof GpuSeconds, string])[] = [
  ["kept", "kept progress"],
  ["spreadLoss", "lost to spread"],
  ["preemptionLoss", "lost to preemption"],
  ["failureLoss", "lost to failures"],
  ["starting", "starting"],
  ["idle", "idle"],
];

export function gpuTimeTable(results: readonly SimulationResult[]): string {
  const rows = results.map(({ policy, gpuSeconds }) => [
    policy,
    ...USES.map(([key]) =>
      shareText(gpuSeconds.inService === 0 ? 0 : gpuSeconds[key] / gpuSeconds.inService),
    ),
  ]);
  return tableHtml(["policy", ...USES.map(([, what]) => what)], rows);
}

/** More rows than this are not read. */
const MOST_ROWS = 30;

/** The tenants that held most under the first policy, each under all policies. */
export function tenantTable(results: readonly SimulationResult[]): string {
  const all = results[0]?.tenants ?? [];
  const shown = [...all]
    .sort((a, b) => b.heldGpuSeconds - a.heldGpuSeconds)
    .slice(0, Math.ceil(MOST_ROWS / Math.max(1, results.length)));
  const head = [
    ...["tenant", "policy", "jobs", "held, GPU-h", "due, GPU-h", "held ÷ due"],
    ...["wait, mean", "wait, p99", "preemptions"],
  ];
  const rows = shown.flatMap(({ name }) =>
    results.flatMap(({ policy, tenants }) => {
      const figures = tenants.find((tenant) => tenant.name === name);
      if (figures === undefined) return [];
      const { submitted, heldGpuSeconds: held, dueGpuSeconds: due, wait, preemptions } = figures;
      const shares = [held / 3_600, due / 3_600].map(shortNumber);
      return [
        [
          ...[
            name,
            policy,
            grouped(submitted),
            ...shares,
            due === 0 ? "" : shortNumber(held / due),
          ],
          ...[timeSpanText(wait.mean), timeSpanText(wait.p99), grouped(preemptions)],
        ],
      ];
    }),
  );
  const rest = all.length - shown.length;
  return (
    tableHtml(head, rows, 2) +
    (rest > 0 ? `<p class="note">and ${grouped(rest)} smaller tenants</p>` : "")
  );
}

/** The first `names` columns are words, the others figures. */
function tableHtml(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  names = 1,
): string {
  const cell = (tag: "td" | "th", text: string, at: number): string =>
    `<${tag}${at < names ? ' class="word"' : ""}>${escaped(text)}</${tag}>`;
  const row = (tag: "td" | "th", texts: readonly string[]): string =>
    `<tr>${texts.map((text, at) => cell(tag, text, at)).join("")}</tr>`;
  return `<div class="wide"><table><thead>${row("th", head)}</thead><tbody>${rows.map((texts) => row("td", texts)).join("")}</tbody></table></div>`;
}
