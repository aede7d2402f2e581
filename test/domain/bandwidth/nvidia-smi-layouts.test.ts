/** @file `nvidia-smi topo -m` means the same in any white space, any order of columns, and with the marks that copies leave. */

import fc from "fast-check";
import { expect, test } from "vitest";
import { parseNvidiaSmiTopo } from "../../../domain/bandwidth/parse-nvidia-smi.ts";
import type { HostTopology } from "../../../domain/values/topology.ts";
import { caseCount } from "../../support/case-count.ts";

function parsed(text: string): HostTopology {
  const result = parseNvidiaSmiTopo(text, { source: "t" });
  if (result.kind === "refused") throw new Error(`${text}\n${JSON.stringify(result.problems)}`);
  return result.topology;
}

const DEVICES = ["GPU0", "GPU1", "GPU2", "NIC0", "mlx5_1"];
const LINKS: Readonly<Record<string, string>> = {
  "GPU0 GPU1": "NV18",
  "GPU0 GPU2": "SYS",
  "GPU1 GPU2": "NODE",
  "GPU0 NIC0": "PIX",
  "GPU1 NIC0": "PXB",
  "GPU2 NIC0": "SYS",
  "GPU0 mlx5_1": "SYS",
  "GPU1 mlx5_1": "PHB",
  "GPU2 mlx5_1": "PIX",
  "NIC0 mlx5_1": "SYS",
};
const linkOf = (a: string, b: string): string =>
  a === b ? "X" : (LINKS[`${a} ${b}`] ?? LINKS[`${b} ${a}`] ?? "SYS");
const AFFINITY = ["0-15,32-47", "0", "N/A"];
const TRAILING = ["CPU Affinity", "NUMA Affinity", "GPU NUMA ID"];

function textOf(columns: readonly string[], rows: readonly string[], gap: () => string): string {
  const line = (label: string, cells: readonly string[]): string =>
    [label, ...cells]
      .map((cell) => `${cell}${gap()}`)
      .join("")
      .trimEnd();
  return [
    gap() + line("", [...columns, ...TRAILING]).trimStart(),
    ...rows.map((label) =>
      line(label, [
        ...columns.map((column) => linkOf(label, column)),
        ...(label.startsWith("GPU") ? AFFINITY : []),
      ]),
    ),
  ].join("\n");
}

const bare = ({ gpuCount, links, gpus, nics }: HostTopology): unknown => ({
  gpuCount,
  links,
  gpus,
  nics: [...nics].sort((a, b) => (a.label < b.label ? -1 : 1)),
});

const PLAIN = parsed(textOf(DEVICES, DEVICES, () => "\t"));

test("tabs and spaces in any mixture between cells", () => {
  const gaps = fc.infiniteStream(fc.constantFrom("\t", " ", "   ", "\t\t", " \t", "\t "));
  fc.assert(
    fc.property(gaps, (stream) => {
      const gap = (): string => stream.next().value ?? " ";
      // Between links alone: an empty cell before an affinity has a meaning.
      const text = textOf(DEVICES, DEVICES, gap).split("\n");
      expect(bare(parsed(text.join("\n")))).toEqual(bare(PLAIN));
    }),
    { numRuns: caseCount(300) },
  );
});

test("columns and rows in any order, network cards before GPUs too", () => {
  const order = fc.shuffledSubarray(DEVICES, { minLength: DEVICES.length });
  fc.assert(
    fc.property(order, order, fc.constantFrom("\t", "   "), (columns, rows, gap) => {
      expect(bare(parsed(textOf(columns, rows, () => gap)))).toEqual(bare(PLAIN));
    }),
    { numRuns: caseCount(200) },
  );
});

test.each(["\u001b[4m", "^[[4m", "\\033[4m", "\\x1b[4m", "\u241b[4m", "[4m"])(
  "the header underlined as %j",
  (mark) => {
    const [header = "", ...rows] = textOf(DEVICES, DEVICES, () => "\t").split("\n");
    const marked = `\t${mark}${header.trim()}${mark.replace("4m", "0m")}`;
    expect(bare(parsed([marked, ...rows].join("\n")))).toEqual(bare(PLAIN));
  },
);

test("a list of GPUs before the matrix, and instances between its rows", () => {
  const [header = "", ...rows] = textOf(DEVICES, DEVICES, () => "\t").split("\n");
  const list = [
    "GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-5c89852c)",
    "  MIG 1g.10gb     Device  0: (UUID: MIG-c7384736)",
    "",
  ];
  const mixed = rows.flatMap((row) => (row.startsWith("GPU") ? [row, list[1] ?? ""] : [row]));
  expect(bare(parsed([...list, header, ...mixed].join("\n")))).toEqual(bare(PLAIN));
});
