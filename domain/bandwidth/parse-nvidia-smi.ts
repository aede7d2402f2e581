/**
 * @file Reads the output of `nvidia-smi topo -m` into a host topology, or reports its problems.
 *
 * A matrix is taken only whole: every GPU 0..n-1 has a row and a column, the diagonal is X and nothing else is,
 * both directions of a pair say the same, every label is known. All problems are reported at once, each
 * with its line and column. Network cards may stand in rows, in columns or in both.
 */

import { shown } from "../values/file-problem.ts";
import { readMatrix, type Cell, type Matrix, type MatrixRow } from "./nvidia-smi-matrix.ts";
import { refuse, type Problem, type Refused } from "../values/problem.ts";
import { cleanLines, refuseBySize } from "../values/text-lines.ts";
import type { GpuAffinity, HostTopology, LinkKind, Nic, PciPath } from "../values/topology.ts";

export type ParsedTopology = { readonly kind: "parsed"; readonly topology: HostTopology } | Refused;

/** More devices than any host has; the matrix grows with the square. */
const MAX_DEVICES = 256;
/** A matrix of that many devices is a quarter of this. */
const MAX_CHARS = 2 ** 20;

const PATH_BY_LABEL: ReadonlyMap<string, LinkKind> = new Map<string, LinkKind>([
  ["X", "self"],
  ["PIX", "pix"],
  // A switch on the board of a two-chip card (K80), which old drivers distinguish from other single switches.
  ["PSB", "pix"],
  ["PXB", "pxb"],
  ["PHB", "phb"],
  ["NODE", "node"],
  ["SYS", "sys"],
  ["SOC", "soc"],
]);

export function parseNvidiaSmiTopo(
  text: string,
  { source }: { readonly source: string },
): ParsedTopology {
  const bySize = refuseBySize(text, source, {
    what: "the output of nvidia-smi topo -m",
    maxChars: MAX_CHARS,
  });
  if (bySize !== undefined) return bySize;
  const matrix = readMatrix(cleanLines(text));
  if (matrix === undefined) {
    const message = "no line names the columns (GPU0, GPU1, …)";
    return refuse(source, [
      { line: 1, message, remedy: "give the output of nvidia-smi topo -m with its header line" },
    ]);
  }
  if (matrix.devices.length > MAX_DEVICES) {
    const message = `${matrix.devices.length} columns; a host has at most ${MAX_DEVICES} devices`;
    return refuse(source, [
      { line: matrix.headerLine, message, remedy: "give the output of one host" },
    ]);
  }
  const problems = [...matrix.problems];
  const labels = gpuLabels(matrix, problems);
  const links = readLinks(matrix, problems);
  checkPairs(matrix, links, problems);
  const gpus = labels.map((label) => readAffinity(rowOf(matrix, label), problems));
  const nics = readNics(matrix, links, { gpus: labels, problems });
  if (problems.length > 0) return refuse(source, problems);
  const square = labels.map((from) =>
    labels.map((to) => links.get(pairKey(from, to))?.kind ?? "self"),
  );
  return { kind: "parsed", topology: { gpuCount: labels.length, links: square, gpus, nics } };
}

/** The text of one cell, and its place. */
interface Link {
  readonly kind: LinkKind;
  readonly line: number;
  readonly cell: Cell;
}

/** `GPU0` … in order; reports GPUs that lack a row or a column, or a number that is left out. */
function gpuLabels(matrix: Matrix, problems: Problem[]): string[] {
  const columns = matrix.devices.map((device) => device.text).filter(isGpu);
  const rows = new Set<string>();
  for (const row of matrix.rows) {
    if (rows.has(row.label)) {
      problems.push({
        line: row.line,
        message: `row ${row.label} appears twice`,
        remedy: "give the output of one host, once",
      });
    }
    rows.add(row.label);
    if (isGpu(row.label) && !columns.includes(row.label)) {
      problems.push({
        line: row.line,
        message: `${row.label} has a row but no column`,
        remedy: "copy the output again, with its whole header line",
      });
    }
  }
  const numbers = columns.map((label) => Number(label.slice(3))).sort((a, b) => a - b);
  const gap = numbers.findIndex((number, index) => number !== index);
  if (gap !== -1) {
    problems.push({
      line: matrix.headerLine,
      message: `column GPU${gap} is missing: the header names GPU${numbers.join(", GPU")}`,
      remedy: "give the whole host, GPU0 up; GPUs are numbered without holes",
    });
  }
  // A row that could not be split is a problem already; it is not missing as well.
  const isWhole = matrix.problems.length === 0;
  for (const label of columns) {
    if (rows.has(label) || !isWhole) continue;
    const lastLine = matrix.rows.at(-1)?.line ?? matrix.headerLine;
    problems.push({
      line: lastLine,
      message: `the matrix ends at line ${lastLine}; ${label} has a column but no row`,
      remedy: "copy the output again, to its last row",
    });
  }
  return numbers.map((number) => `GPU${number}`);
}

function readLinks(matrix: Matrix, problems: Problem[]): Map<string, Link> {
  const links = new Map<string, Link>();
  for (const row of matrix.rows) {
    for (const [at, cell] of row.links.entries()) {
      const device = matrix.devices[at];
      if (device === undefined) continue;
      const kind = linkKind(cell.text);
      if (kind === undefined) problems.push(unknownLabel(row, device.text, cell));
      else links.set(pairKey(row.label, device.text), { kind, line: row.line, cell });
    }
  }
  return links;
}

function linkKind(label: string): LinkKind | undefined {
  const upper = label.toUpperCase();
  const lanes = Number(/^NV(\d{1,3})$/.exec(upper)?.[1] ?? 0);
  return lanes > 0 ? { kind: "nvlink", lanes } : PATH_BY_LABEL.get(upper);
}

function unknownLabel(row: MatrixRow, to: string, cell: Cell): Problem {
  const isPeerToPeer = /^(OK|NS|CNS|GNS|TNS|U)$/i.test(cell.text);
  return {
    line: row.line,
    column: cell.column,
    message: `${row.label} to ${to} says ${shown(cell.text)}`,
    remedy: isPeerToPeer
      ? "this is the output of nvidia-smi topo -p2p; give that of nvidia-smi topo -m"
      : "the labels are X, NV1, NV2, …, PIX, PXB, PHB, NODE, SYS",
  };
}

/** X stands on the diagonal only, and both directions of a pair say the same. */
function checkPairs(matrix: Matrix, links: ReadonlyMap<string, Link>, problems: Problem[]): void {
  for (const row of matrix.rows) {
    for (const { text: to } of matrix.devices) {
      const link = links.get(pairKey(row.label, to));
      if (link === undefined) continue;
      const { cell, line } = link;
      const place = { line, column: cell.column };
      if ((link.kind === "self") !== (row.label === to)) {
        const message = `${row.label} to ${to} says ${shown(cell.text)}`;
        const remedy =
          row.label === to
            ? "a device meets itself with X; a cell of the row is missing or too many"
            : "X stands only where a device meets itself; a cell is missing or too many";
        problems.push({ ...place, message, remedy });
        continue;
      }
      const back = links.get(pairKey(to, row.label));
      // Each pair once: from the later row, when the first is on record.
      if (back === undefined || back.line >= line || back.kind === "self") continue;
      if (labelOf(back.kind) === labelOf(link.kind)) continue;
      problems.push({
        ...place,
        message: `${row.label} to ${to} says ${cell.text}, but ${to} to ${row.label} says ${back.cell.text} (line ${back.line})`,
        remedy: "both directions are the same link; copy the output again",
      });
    }
  }
}

function readAffinity(row: MatrixRow | undefined, problems: Problem[]): GpuAffinity {
  if (row === undefined) return {};
  const cpu = knownCell(row, "cpuAffinity", problems);
  const numa = knownCell(row, "numaAffinity", problems);
  const numaNode = numa === undefined ? undefined : Number(/^\d+/.exec(numa)?.[0]);
  return {
    ...(cpu !== undefined && { cpuAffinity: cpu }),
    ...(numaNode !== undefined && { numaNode }),
  };
}

/** The text of a cell that lists cores or nodes; absent when empty, `N/A` or negative: unknown. */
function knownCell(
  row: MatrixRow,
  name: "cpuAffinity" | "numaAffinity",
  problems: Problem[],
): string | undefined {
  const cell = row.trailing.get(name);
  if (cell === undefined || /^(N\/A|-\d+)$/i.test(cell.text)) return undefined;
  if (/^\d+(-\d+)?(,\d+(-\d+)?)*$/.test(cell.text)) return cell.text;
  problems.push({
    line: row.line,
    column: cell.column,
    message: `${name === "cpuAffinity" ? "CPU" : "NUMA"} affinity of ${row.label} is ${shown(cell.text)}`,
    remedy: "it is a list of numbers such as 0-23,48-71, or N/A",
  });
  return undefined;
}

function readNics(
  matrix: Matrix,
  links: ReadonlyMap<string, Link>,
  { gpus, problems }: { readonly gpus: readonly string[]; readonly problems: Problem[] },
): Nic[] {
  const labels = new Set(
    [...matrix.devices.map((device) => device.text), ...matrix.rows.map((row) => row.label)].filter(
      (label) => !isGpu(label),
    ),
  );
  return [...labels].map((label) => {
    const gpuLinks: PciPath[] = [];
    for (const gpu of gpus) {
      const link = links.get(pairKey(gpu, label)) ?? links.get(pairKey(label, gpu));
      if (link === undefined || link.kind === "self") continue;
      if (typeof link.kind === "string") gpuLinks.push(link.kind);
      else {
        problems.push({
          line: link.line,
          column: link.cell.column,
          message: `${gpu} to ${label} says ${link.cell.text}, but a network card has no NVLink`,
          remedy: "a cell of the row is missing or too many; copy the output again",
        });
      }
    }
    return { label, device: matrix.nicNames.get(label) ?? label, gpuLinks };
  });
}

function rowOf(matrix: Matrix, label: string): MatrixRow | undefined {
  return matrix.rows.find((row) => row.label === label);
}

function labelOf(kind: LinkKind): string {
  return typeof kind === "string" ? kind : `nv${kind.lanes}`;
}

function isGpu(label: string): boolean {
  return /^GPU\d+$/.test(label);
}

function pairKey(from: string, to: string): string {
  return `${from} ${to}`;
}
