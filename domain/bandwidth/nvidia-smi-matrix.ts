/**
 * @file The matrix of `nvidia-smi topo -m` as labelled cells, not yet interpreted.
 *
 * Accepts the tool's own output (tabs), copies from terminals and wikis (aligned spaces, Markdown
 * tables, tabs and spaces mixed), and prefixes of launchers on each line ("0: ", "node1: ", "# "). A link has no space
 * and is never empty, so links are split at white space whatever it is; trailing cells that may be empty (CPU
 * affinity, NUMA node) are told apart by tabs where they have them, else by count, else by position under the header.
 */

import { shown } from "../values/file-problem.ts";
import type { Problem } from "../values/problem.ts";
import { expandTabs } from "../values/text-lines.ts";

export interface Cell {
  readonly text: string;
  /** Counted from 1. */
  readonly column: number;
}

export type TrailingColumn = "cpuAffinity" | "numaAffinity" | "gpuNumaId";

export interface MatrixRow {
  readonly line: number;
  readonly label: string;
  /** One cell per device column of the header. */
  readonly links: readonly Cell[];
  readonly trailing: ReadonlyMap<TrailingColumn, Cell>;
}

export interface Matrix {
  readonly headerLine: number;
  /** Device columns: GPUs and network cards. */
  readonly devices: readonly Cell[];
  readonly rows: readonly MatrixRow[];
  /** Device names by label, from the NIC legend. */
  readonly nicNames: ReadonlyMap<string, string>;
  readonly problems: readonly Problem[];
}

interface Header {
  readonly line: number;
  readonly isMarkdown: boolean;
  /** The launcher's prefix of every line. */
  readonly prefix: string;
  readonly devices: readonly Cell[];
  readonly trailing: readonly { readonly name: TrailingColumn; readonly at: number }[];
  readonly problems: readonly Problem[];
}

/** A label of how two devices are joined, known or not. */
const LINK_SHAPE = /^(X|NV[\w#]*|PIX|PXB|PHB|PSB|NODE|SYS|SOC|OK|NS)$/i;
const GPU_LABEL = /^GPU\d+$/;
const DEVICE_LABEL = /^[A-Za-z][\w.:-]*$/;
const PREFIX = /^(?:[#>]|\S+:) ?(?=\s*GPU\d+(?:\s|$))/;
const TRAILING =
  /(?<cpuAffinity>CPU\s*Affinity)|(?<numaAffinity>NUMA\s*Affinity)|(?<gpuNumaId>GPU\s*NUMA\s*ID)/gi;

/** The underlining of nvidia-smi's header, in a copy that has lost the escape character or writes it out. */
const UNDERLINE = /(?:\u241b|\^\[|\\(?:x1b|u001b|033|e))?\[(?:0|4|24)?m/gi;
/** Instances on a GPU, which some tools list below it; they have no links of their own. */
const MIG_LINE = /^\s*MIG\b/;

/** The first matrix of the text's lines; `undefined` when there is no header line. */
export function readMatrix(text: readonly string[]): Matrix | undefined {
  const lines = text.map((line) => line.replace(UNDERLINE, ""));
  const header = findHeader(lines);
  if (header === undefined) return undefined;
  const rows: MatrixRow[] = [];
  const problems = [...header.problems];
  let at = header.line;
  for (; at < lines.length; at += 1) {
    const line = withoutPrefix(lines[at] ?? "", header.prefix);
    if (line.trim() === "" || /^[\s|:-]+$/.test(line) || MIG_LINE.test(line)) continue;
    if (!isRow(line, header)) break;
    const row = header.isMarkdown
      ? markdownRow(line, at + 1, header)
      : textRow(line, at + 1, header);
    if ("message" in row) problems.push(row);
    else rows.push(row);
  }
  const rest = lines.slice(at).map((line) => withoutPrefix(line, header.prefix));
  const second = rest.findIndex((line) => headerCells(line) !== undefined);
  if (second !== -1) {
    problems.push({
      line: at + second + 1,
      message: "a second matrix begins here",
      remedy: "give the output of one host per file",
    });
  }
  return {
    headerLine: header.line,
    devices: header.devices,
    rows,
    nicNames: nicLegend(rest),
    problems,
  };
}

function findHeader(lines: readonly string[]): Header | undefined {
  for (const [index, raw] of lines.entries()) {
    const prefix = PREFIX.exec(raw)?.[0] ?? "";
    const line = withoutPrefix(raw, prefix);
    const cells = headerCells(line);
    if (cells === undefined) continue;
    const problems: Problem[] = [];
    const seen = new Set<string>();
    for (const cell of cells.devices) {
      if (DEVICE_LABEL.test(cell.text) && !seen.has(cell.text)) seen.add(cell.text);
      else {
        const wrong = seen.has(cell.text) ? "appears twice" : "is no GPU and no network card";
        problems.push({
          line: index + 1,
          column: cell.column,
          message: `column ${shown(cell.text)} ${wrong}`,
          remedy: "the header names every device once, as nvidia-smi prints it",
        });
      }
    }
    return { line: index + 1, prefix, problems, ...cells };
  }
  return undefined;
}

/** A header names GPUs where a row would name links. */
function headerCells(
  line: string,
): Pick<Header, "isMarkdown" | "devices" | "trailing"> | undefined {
  if (line.trimStart().startsWith("|")) {
    const [, ...cells] = markdownCells(line);
    if (!GPU_LABEL.test(cells[0]?.text ?? "")) return undefined;
    const trailing: { name: TrailingColumn; at: number }[] = [];
    const devices = cells.filter((cell, at) => {
      const name = trailingNames(cell.text)[0]?.name;
      if (name !== undefined) trailing.push({ name, at });
      return name === undefined;
    });
    return { isMarkdown: true, devices, trailing };
  }
  const wide = expandTabs(line);
  const trailing = trailingNames(wide);
  const devices = splitAtSpace(wide.slice(0, trailing[0]?.at ?? wide.length));
  const [first, second] = devices;
  if (first === undefined || !devices.some(({ text }) => GPU_LABEL.test(text))) return undefined;
  // A row has a link in the second place, perhaps a broken one; cards have numbers in their names.
  const isDevices = GPU_LABEL.test(first.text)
    ? second === undefined || trailing.length > 0 || isDeviceName(second)
    : devices.every(isDeviceName);
  if (!isDevices) return undefined;
  return { isMarkdown: false, devices, trailing };
}

const isDeviceName = ({ text }: Cell): boolean =>
  /\d/.test(text) && DEVICE_LABEL.test(text) && !LINK_SHAPE.test(text);

function trailingNames(text: string): { name: TrailingColumn; at: number }[] {
  return [...text.matchAll(TRAILING)].map((match) => {
    const { cpuAffinity, numaAffinity } = match.groups ?? {};
    const name = cpuAffinity ? "cpuAffinity" : numaAffinity ? "numaAffinity" : "gpuNumaId";
    return { name, at: match.index };
  });
}

/** Rows begin with a device of the header, or with another device and a link. */
function isRow(line: string, header: Header): boolean {
  if (headerCells(line) !== undefined) return false;
  const [label, next] = header.isMarkdown
    ? markdownCells(line).map((cell) => cell.text)
    : line.trim().split(/\s+/);
  if (label === undefined || !DEVICE_LABEL.test(label)) return false;
  const isKnown = header.devices.some((device) => device.text === label);
  return isKnown || GPU_LABEL.test(label) || (next !== undefined && LINK_SHAPE.test(next));
}

function textRow(line: string, lineNumber: number, header: Header): MatrixRow | Problem {
  const count = header.devices.length;
  const [label, ...bySpace] = splitAtSpace(line);
  if (label === undefined) throw new Error("a row without a label was taken for a row");
  const links = bySpace.slice(0, count);
  const row = { line: lineNumber, label: label.text, links };
  const ragged = raggedRow(row, count);
  if (ragged !== undefined) return ragged;
  const last = links.at(-1) ?? label;
  return closedRow(row, trailingCells(line, last.column - 1 + last.text.length, header));
}

/** The cells after the links, which end before `from`. */
function trailingCells(line: string, from: number, header: Header): Trailing {
  const moved = ({ text, column }: Cell): Cell => ({ text, column: column + from });
  const rest = line.slice(from);
  const byTab = splitAtTab(rest).map(moved);
  const isTabbed = byTab[0]?.text === "" && byTab.every(({ text }) => !/\s/.test(text));
  if (isTabbed && byTab.length > 1) {
    return byCount(withoutAlignmentTabs(byTab.slice(1), header.trailing.length), header);
  }
  const bySpace = splitAtSpace(rest).map(moved);
  return bySpace.length < header.trailing.length
    ? byPosition(line, bySpace, header)
    : byCount(bySpace, header);
}

function markdownRow(line: string, lineNumber: number, header: Header): MatrixRow | Problem {
  const [label, ...cells] = markdownCells(line);
  const count = header.devices.length;
  const links = cells.slice(0, count);
  const row = { line: lineNumber, label: label?.text ?? "", links };
  return raggedRow(row, count) ?? closedRow(row, byCount(cells.slice(count), header));
}

interface Trailing {
  readonly cells: ReadonlyMap<TrailingColumn, Cell>;
  /** The first cell beyond the header's last column. */
  readonly surplus?: Cell;
}

type LinkRow = Pick<MatrixRow, "line" | "label" | "links">;

function closedRow(row: LinkRow, trailing: Trailing): MatrixRow | Problem {
  if (trailing.surplus === undefined) return { ...row, trailing: trailing.cells };
  return {
    line: row.line,
    column: trailing.surplus.column,
    message: `row ${row.label} goes on after its last column with ${shown(trailing.surplus.text)}`,
    remedy: "a row has one cell for each column of the header; copy the output again, whole",
  };
}

/** Fewer links than columns: cut off, or a cell is missing and the next column slid into its place. */
function raggedRow({ line, label, links }: LinkRow, count: number): Problem | undefined {
  const slid = links.findIndex((cell) => /^(\d.*|N\/A)?$/i.test(cell.text));
  const found = slid === -1 ? links.length : slid;
  if (found === count) return undefined;
  const at = links[slid];
  return {
    line,
    ...(at && { column: at.column }),
    message: `row ${label} has ${found} links and needs ${count}, one for each device of the header`,
    remedy: "copy the output again, whole and without wrapped lines",
  };
}

/** nvidia-smi puts a second tab before a short cell to align it; those empty cells are no columns. */
function withoutAlignmentTabs(cells: readonly Cell[], columns: number): readonly Cell[] {
  const kept = [...cells];
  while (kept.length > columns) {
    const empty = kept.findIndex((cell, at) => at > 0 && cell.text === "");
    if (empty !== -1) kept.splice(empty, 1);
    else if (kept[0]?.text === "") kept.shift();
    else break;
  }
  return kept;
}

function byCount(cells: readonly Cell[], header: Header): Trailing {
  const found = new Map<TrailingColumn, Cell>();
  for (const [at, { name }] of header.trailing.entries()) {
    const cell = cells[at];
    if (cell !== undefined && cell.text !== "") found.set(name, cell);
  }
  const surplus = cells.slice(header.trailing.length).find((cell) => cell.text !== "");
  return { cells: found, ...(surplus && { surplus }) };
}

/** An absent cell leaves a gap: each cell belongs to the last header word that begins at or before it. */
function byPosition(line: string, cells: readonly Cell[], header: Header): Trailing {
  const found = new Map<TrailingColumn, Cell>();
  const wideStarts = splitAtSpace(expandTabs(line)).slice(-cells.length);
  let next = 0;
  for (const [index, cell] of cells.entries()) {
    const start = (wideStarts[index]?.column ?? cell.column) - 1;
    let column = next;
    while (
      column + 1 < header.trailing.length &&
      (header.trailing[column + 1]?.at ?? 0) <= start + 1
    ) {
      column += 1;
    }
    const name = header.trailing[column]?.name;
    if (name !== undefined) found.set(name, cell);
    next = column + 1;
  }
  return { cells: found };
}

function nicLegend(lines: readonly string[]): ReadonlyMap<string, string> {
  const names = new Map<string, string>();
  const start = lines.findIndex((line) => /^\s*NIC Legend/i.test(line));
  if (start === -1) return names;
  for (const line of lines.slice(start + 1)) {
    const [, label, name] = /^\s*([\w.-]+)\s*[:=]\s*([\w.:-]+)\s*$/.exec(line) ?? [];
    if (label !== undefined && name !== undefined) names.set(label, name);
  }
  return names;
}

function withoutPrefix(line: string, prefix: string): string {
  return prefix !== "" && line.startsWith(prefix) ? line.slice(prefix.length) : line;
}

function splitAtSpace(line: string): Cell[] {
  return [...line.matchAll(/\S+/g)].map((match) => ({ text: match[0], column: match.index + 1 }));
}

function splitAtTab(line: string): Cell[] {
  let column = 1;
  return line.split("\t").map((part) => {
    const indent = part.length - part.trimStart().length;
    const cell = { text: part.trim(), column: column + indent };
    column += part.length + 1;
    return cell;
  });
}

function markdownCells(line: string): Cell[] {
  let column = 1;
  const parts = line.split("|").map((part) => {
    const indent = part.length - part.trimStart().length;
    const cell = { text: part.trim(), column: column + indent };
    column += part.length + 1;
    return cell;
  });
  // The bars at both ends of a Markdown row make an empty part each.
  return parts.slice(1, parts.at(-1)?.text === "" ? -1 : undefined);
}
