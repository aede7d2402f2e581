/** @file Made-up topologies, written the ways that nvidia-smi, terminals, wikis and launchers write them. */
import type { HostTopology, LinkKind } from "../../domain/values/topology.ts";

export interface TopoStyle {
  readonly cells: "tabs" | "spaces" | "markdown";
  readonly lineEnd: "\n" | "\r\n";
  /** Underlined header, as nvidia-smi prints it to a terminal and to a pipe. */
  readonly isUnderlined: boolean;
  readonly hasLegend: boolean;
  /** Where network cards are listed. */
  readonly nicsIn: "both" | "columns" | "rows";
  readonly affinity: "none" | "cpu" | "cpu+numa" | "cpu+numa+gpu";
  readonly prefix: string;
}

export const PLAIN_STYLE: TopoStyle = {
  cells: "tabs",
  lineEnd: "\n",
  isUnderlined: false,
  hasLegend: true,
  nicsIn: "both",
  affinity: "cpu+numa+gpu",
  prefix: "",
};

export function labelOf(kind: LinkKind): string {
  if (typeof kind === "object") return `NV${kind.lanes}`;
  return kind === "self" ? "X" : kind.toUpperCase();
}

/** Links between network cards are all SYS: the parser checks them and keeps none. */
export function topoText(topology: HostTopology, style: TopoStyle): string {
  const gpuLabels = topology.gpus.map((_, gpu) => `GPU${gpu}`);
  const nicColumns = style.nicsIn === "rows" ? [] : topology.nics;
  const trailing = {
    none: [],
    cpu: ["CPU Affinity"],
    "cpu+numa": ["CPU Affinity", "NUMA Affinity"],
    "cpu+numa+gpu": ["CPU Affinity", "NUMA Affinity", "GPU NUMA ID"],
  }[style.affinity];
  const header = ["", ...gpuLabels, ...nicColumns.map((nic) => nic.label), ...trailing];
  const gpuRows = topology.gpus.map(({ cpuAffinity, numaNode }, gpu) => [
    `GPU${gpu}`,
    ...(topology.links[gpu] ?? []).map(labelOf),
    ...nicColumns.map((nic) => labelOf(nic.gpuLinks[gpu] ?? "sys")),
    ...[cpuAffinity ?? "", numaNode === undefined ? "N/A" : `${numaNode}`, "N/A"].slice(
      0,
      trailing.length,
    ),
  ]);
  const nicRows = (style.nicsIn === "columns" ? [] : topology.nics).map((nic) => [
    nic.label,
    ...nic.gpuLinks.map(labelOf),
    ...nicColumns.map((other) => (other === nic ? "X" : "SYS")),
  ]);
  const matrix = [header, ...gpuRows, ...nicRows].map((cells) => writeRow(cells, style));
  if (style.cells === "markdown") matrix.splice(1, 0, `|${"---|".repeat(header.length)}`);
  else if (style.isUnderlined) matrix[0] = `\u001b[4m${matrix[0] ?? ""}\u001b[0m`;
  const legend = style.hasLegend ? ["", "Legend:", "", "  X    = Self", "  NV#  = NVLinks"] : [];
  const nicLegend = style.hasLegend
    ? ["", "NIC Legend:", "", ...topology.nics.map(({ label, device }) => `  ${label}: ${device}`)]
    : [];
  const lines = [...matrix, ...legend, ...(topology.nics.length > 0 ? nicLegend : [])];
  return lines.map((line) => style.prefix + line).join(style.lineEnd) + style.lineEnd;
}

function writeRow(cells: readonly string[], style: TopoStyle): string {
  switch (style.cells) {
    case "tabs":
      return cells.map((cell) => (cell === "X" ? " X " : cell)).join("\t");
    case "markdown":
      return `| ${cells.map((cell, at) => (at === 0 && cell === "" ? "GPU0" : cell)).join(" | ")} |`;
    case "spaces":
      // Columns of eight as a terminal shows tabs; wide ones for the columns after the links.
      return cells
        .map((cell) => cell.padEnd(/Affinity|ID|^\d[\d,-]*$|N\/A|^$/.test(cell) ? 16 : 8))
        .join("")
        .replace(/^ {16}/, " ".repeat(8))
        .trimEnd();
  }
}
