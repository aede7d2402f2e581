/**
 * @file The answer of a bench: a table for people at 80 columns, one document for machines.
 *
 * Figures are rounded to three significant digits in the table and kept whole in the document.
 */

import { availableParallelism, cpus, totalmem } from "node:os";
import { tableText, type Column } from "../cli/terminal/table.ts";
import type { Bar } from "./bar.ts";
import type { Bench, BenchAnswer, BenchRequest, BenchTable } from "./bench.ts";

interface BenchDocument {
  readonly name: string;
  readonly seed: number;
  readonly bars: readonly Bar[];
  readonly tables?: readonly BenchTable[];
  readonly holds: boolean;
  readonly sizes: Readonly<Record<string, number>>;
  readonly machine: Machine;
  readonly details?: Readonly<Record<string, unknown>>;
}

interface Machine {
  readonly cores: number;
  readonly processor: string;
  readonly memoryGiB: number;
  readonly node: string;
}

export function documentOf(
  bench: Bench,
  request: BenchRequest,
  { bars, tables, details }: BenchAnswer,
): BenchDocument {
  const sizes = bench.options.flatMap((option) =>
    option.kind === "size" ? [[option.name, request.size(option.name)] as const] : [],
  );
  return {
    name: bench.name,
    seed: request.seed,
    bars,
    ...(tables !== undefined && { tables }),
    holds: holdsAll(bars),
    sizes: Object.fromEntries(sizes),
    machine: machineNow(),
    ...(details !== undefined && { details }),
  };
}

/** A bench without a single bar has shown nothing. */
export const holdsAll = (bars: readonly Bar[]): boolean =>
  bars.length > 0 && bars.every(({ holds }) => holds);

const COLUMNS: readonly Column[] = [
  { title: "BAR", least: 20 },
  { title: "UNIT" },
  { title: "PAPER", isRight: true },
  { title: "WANT", isRight: true },
  { title: "GOT", isRight: true },
  { title: "HOLDS" },
];

/** Tables that the bench brings, the table of bars, the notes to its rows below it, and how many bars hold. */
export function reportText({ bars, tables = [], machine }: BenchDocument, width: number): string {
  const rows = bars.map(({ id, unit, paper, want, got, holds }) => [
    id,
    unit,
    paper === undefined ? "" : figureText(paper),
    want.replace("<=", "≤").replace(">=", "≥"),
    got === null ? "-" : figureText(got),
    holds ? "yes" : "NO",
  ]);
  const notes = bars.flatMap(({ id, note }) => (note === undefined ? [] : [`${id}: ${note}`]));
  const held = bars.filter(({ holds }) => holds).length;
  return [
    ...tables.map((table) => sideBySide(table, width)),
    tableText(COLUMNS, rows, width),
    ...(notes.length > 0 ? [notes.map((note) => folded(note, width)).join("\n")] : []),
    `${String(held)} of ${String(bars.length)} bars hold · ${String(machine.cores)} cores, Node ${machine.node}`,
  ].join("\n\n");
}

function sideBySide({ title, columns, rows }: BenchTable, width: number): string {
  const shown = columns.map((name, at): Column =>
    at === 0 ? { title: name } : { title: name, isRight: true },
  );
  return `${folded(title, width)}\n${tableText(shown, rows, width)}`;
}

/** `1234567` → `1,230,000`, `0.123456` → `0.123`. */
export function figureText(value: number): string {
  if (value === 0) return "0";
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))));
  return value.toLocaleString("en-US", {
    maximumFractionDigits: digits,
    ...(Math.abs(value) < 1 && { maximumSignificantDigits: 3 }),
  });
}

function folded(text: string, width: number): string {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(" ")) {
    const longer = line === "" ? word : `${line} ${word}`;
    if (longer.length <= width) line = longer;
    else {
      lines.push(line);
      line = `  ${word}`;
    }
  }
  return [...lines, line].join("\n");
}

const machineNow = (): Machine => ({
  cores: availableParallelism(),
  processor: cpus()[0]?.model.trim() ?? "unknown",
  memoryGiB: Math.round(totalmem() / 2 ** 30),
  node: process.versions.node,
});
