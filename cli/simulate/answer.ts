/** @file The answer of `simulate`: text at the screen's width, one JSON document, and a CSV line for each job. */

import { JOB_CLASSES } from "../../domain/job/job.ts";
import { problemText, type Problem } from "../../domain/values/problem.ts";
import { grouped, shareText, timeSpanText } from "../../simulator/report/amounts.ts";
import type { Counted, TraceAccount } from "../../simulator/readers/trace.ts";
import type { JobRow, SimulationResult } from "../../simulator/result.ts";
import { factsText, tableText, type Column } from "../terminal/table.ts";

/** Facts of an input file. */
export interface InputAccount {
  readonly file: string;
  readonly format: string;
  readonly account: TraceAccount;
}

export interface Answer {
  readonly results: readonly SimulationResult[];
  readonly inputs: readonly InputAccount[];
}

export interface SimulateDocument {
  readonly inputs: readonly (InputDocument & { readonly badRows: readonly Problem[] })[];
  readonly results: readonly SimulationResult[];
}

interface InputDocument {
  readonly file: string;
  readonly format: string;
  readonly rows: number;
  readonly leftOut: readonly Counted[];
  readonly notes: readonly Counted[];
}

export const documentOf = ({ results, inputs }: Answer): SimulateDocument => ({
  inputs: inputs.map(({ file, format, account }) => ({ file, format, ...account })),
  // Rows of jobs are left to --csv.
  results: results.map(({ jobRows: _, ...result }) => result),
});

export function answerText({ results, inputs }: Answer, width: number): string {
  const [first] = results;
  if (first === undefined) return "";
  const { workload, fleet, window } = first;
  const facts = factsText([
    ["workload", `${workload.name}, ${grouped(workload.jobs)} jobs`],
    [
      "fleet",
      `${grouped(fleet.gpus)} GPUs, ${grouped(fleet.hosts)} hosts, ${String(fleet.sites)} ${fleet.sites === 1 ? "site" : "sites"}`,
    ],
    [
      "offered",
      `${shareText(workload.offeredLoad)} of the GPU time up to the last arrival, all work counted`,
    ],
    ["window", `${timeSpanText(window.fromMs)} to ${timeSpanText(window.toMs)}`],
    ...workload.notes.map(
      (note, at) => [at === 0 ? "notes" : "", folded(note, width - 10)] as const,
    ),
  ]);
  return [
    facts,
    tableText(POLICY_COLUMNS, results.map(policyRow), width),
    tableText(WAIT_COLUMNS, results.flatMap(waitRows), width),
    ...inputs.flatMap((input) => badRowsText(input)),
  ].join("\n\n");
}

const POLICY_COLUMNS: readonly Column[] = [
  { title: "POLICY", least: 8 },
  { title: "UTILISED", isRight: true },
  { title: "SPREAD", isRight: true },
  { title: "HELD", isRight: true },
  { title: "LOST", isRight: true },
  { title: "EVICTED", isRight: true },
  { title: "DEGRADED", isRight: true },
  { title: "STARVED", isRight: true },
  { title: "NOT ENDED", isRight: true },
];

function policyRow(result: SimulationResult): readonly string[] {
  const { jobs, starved, preemption, degradation } = result;
  return [
    result.policy,
    shareText(result.utilisation),
    shareText(result.utilisation - result.utilisationAtBestSpread),
    shareText(result.occupancy),
    shareText(result.trainingLost),
    grouped(preemption.evictions + preemption.shrinks),
    grouped(degradation.grants),
    starved.boundMs === null ? "-" : grouped(starved.jobs),
    grouped(jobs.submitted - jobs.ended),
  ];
}

const WAIT_COLUMNS: readonly Column[] = [
  { title: "CLASS" },
  { title: "POLICY", least: 6 },
  { title: "WAITS", isRight: true },
  { title: "MEAN", isRight: true },
  { title: "P50", isRight: true },
  { title: "P90", isRight: true },
  { title: "P99", isRight: true },
  { title: "LONGEST", isRight: true },
];

function waitRows({ policy, classes }: SimulationResult): readonly (readonly string[])[] {
  return JOB_CLASSES.flatMap((name) => {
    const wait = classes.find((one) => one.name === name)?.wait;
    if (wait === undefined || wait.count === 0) return [];
    const times = [wait.mean, wait.p50, wait.p90, wait.p99, wait.max].map(timeSpanText);
    return [[name, policy, grouped(wait.count), ...times]];
  });
}

/** The first ones by name; all of them are in the JSON document. */
const SHOWN_BAD_ROWS = 5;

function badRowsText({ file, account: { badRows, rows } }: InputAccount): readonly string[] {
  if (badRows.length === 0) return [];
  const shown = badRows.slice(0, SHOWN_BAD_ROWS).map((problem) => problemText(file, problem));
  const rest = badRows.length - shown.length;
  return [
    [
      `${grouped(badRows.length)} of ${grouped(rows)} rows of ${file} could not be read:`,
      ...shown.map((line) => `  ${line}`),
      ...(rest > 0 ? [`  and ${grouped(rest)} more; --json names them all`] : []),
    ].join("\n"),
  ];
}

const CSV_COLUMNS = [
  "id",
  "class",
  "tenant",
  "gpus",
  "submittedAtMs",
  "durationMs",
  "firstGrantAtMs",
  "endedAtMs",
  "queuedMs",
  "preemptions",
  "failures",
  "grantedGpus",
] as const satisfies readonly (keyof JobRow)[];

/** Ids and tenants are plain words, so that no cell needs quotes. */
export function jobsCsv(results: readonly SimulationResult[]): string {
  const lines = results.flatMap(({ policy, jobRows = [] }) =>
    jobRows.map((row) =>
      [policy, ...CSV_COLUMNS.map((column) => String(row[column] ?? ""))].join(","),
    ),
  );
  return [["policy", ...CSV_COLUMNS].join(","), ...lines, ""].join("\n");
}

function folded(text: string, width: number): string {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(" ")) {
    const longer = line === "" ? word : `${line} ${word}`;
    if (longer.length <= width || line === "") line = longer;
    else {
      lines.push(line);
      line = word;
    }
  }
  return [...lines, line].join("\n");
}
