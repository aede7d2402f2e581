/**
 * @file The report of one simulation, or of several policies on the same arrivals, as one HTML file.
 *
 * It needs nothing but itself: style and plots are inside, there is no script, and its policy forbids to load anything. Light and dark
 * follow the reader's system. The same results give the same bytes.
 */

import type { SimulationResult } from "../result.ts";
import { grouped, shareText, timeSpanText } from "./amounts.ts";
import { chartSvg, legendHtml } from "./chart.ts";
import { escaped } from "./escaped.ts";
import { figuresOf, shownUntilMs, type Figure } from "./figures.ts";
import { STYLE } from "./style.ts";
import { gpuTimeTable, summaryTable, tenantTable, waitTable } from "./tables.ts";

export interface ReportOptions {
  /** Notes for the reader, for example rows of the trace that could not be read. */
  readonly remarks?: readonly string[];
}

/** All results are of one workload on one fleet. */
export function reportHtml(
  results: readonly SimulationResult[],
  { remarks = [] }: ReportOptions = {},
): string {
  const [first] = results;
  if (first === undefined) throw new Error("a report needs at least one result");
  const title = `${first.workload.name}: ${results.map(({ policy }) => policy).join(", ")}`;
  const sections = [
    section("Figures", summaryTable(results)),
    `<div class="figures">${figuresOf(results).map(figureHtml).join("\n")}</div>`,
    section("Waits", waitTable(results)),
    section("Where the GPU time went", gpuTimeTable(results)),
    section("Tenants", tenantTable(results)),
    section("What was simulated", facts(results, remarks)),
  ];
  return [
    "<!doctype html>",
    '<html lang="en"><head><meta charset="utf-8">',
    `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">`,
    '<meta name="viewport" content="width=device-width, initial-scale=1">',
    '<meta name="color-scheme" content="light dark">',
    `<title>${escaped(title)}</title><style>${STYLE}</style></head><body><main>`,
    `<header><h1>${escaped(title)}</h1><p>${escaped(lead(first))}</p></header>`,
    ...sections,
    "</main></body></html>",
    "",
  ].join("\n");
}

function lead({ workload, fleet, endedAtMs, seed }: SimulationResult): string {
  const sites = fleet.sites === 1 ? "one site" : `${String(fleet.sites)} sites`;
  return (
    `${grouped(workload.jobs)} jobs on ${grouped(fleet.gpus)} GPUs of ${grouped(fleet.hosts)} hosts in ${sites}, ` +
    `offered load ${shareText(workload.offeredLoad)}, ${timeSpanText(endedAtMs)} simulated, seed ${String(seed)}.`
  );
}

const section = (heading: string, body: string): string =>
  `<section><h2>${escaped(heading)}</h2>${body}</section>`;

const figureHtml = ({ heading, note, chart }: Figure): string =>
  `<figure><h2>${escaped(heading)}</h2>${legendHtml(chart.series)}${chartSvg(chart)}<figcaption>${escaped(note)}</figcaption></figure>`;

function facts(results: readonly SimulationResult[], remarks: readonly string[]): string {
  const [first] = results;
  if (first === undefined) return "";
  const { workload, costs, window } = first;
  const times = [
    ["a decision", costs.decisionMs],
    ["least time between cycles", costs.cycleIntervalMs],
    ["delivery of a grant", costs.deliveryMs],
    ["start", costs.startMs],
    ["checkpoint", costs.checkpointMs],
    ["restart", costs.restartMs],
  ] as const;
  const endedAtMs = Math.max(...results.map((result) => result.endedAtMs));
  const shownMs = shownUntilMs(results);
  const lines = [
    ...workload.notes,
    ...remarks,
    `Charged: ${times.map(([what, ms]) => `${what} ${timeSpanText(ms)}`).join(", ")}.`,
    `Steady window: from ${timeSpanText(window.fromMs)} to ${timeSpanText(window.toMs)} after the start. Waits, utilisation and losses are of this window.`,
    ...(endedAtMs > shownMs
      ? [
          `Plots over time end at ${timeSpanText(shownMs)}; the last job ended at ${timeSpanText(endedAtMs)}.`,
        ]
      : []),
  ];
  return `<ul>${lines.map((text) => `<li>${escaped(text)}</li>`).join("")}</ul>`;
}
