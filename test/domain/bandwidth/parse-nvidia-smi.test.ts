/** @file Every output of `nvidia-smi topo -m` that we could find reads right; broken ones are refused by place. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parseNvidiaSmiTopo } from "../../../domain/bandwidth/parse-nvidia-smi.ts";
import { problemText } from "../../../domain/values/problem.ts";
import {
  nvlinkDomains,
  type GpuAffinity,
  type HostTopology,
  type LinkKind,
  type Nic,
  type PciPath,
} from "../../../domain/values/topology.ts";
import { dataText, fixtureText, samples } from "../samples.ts";
import { labelOf, PLAIN_STYLE, topoText, type TopoStyle } from "../topo-text.ts";
import { caseCount } from "../../support/case-count.ts";

const SAMPLES = samples(
  ["test/fixtures/nvidia-smi", "test/fixtures/nvidia-smi/cc-by-sa", "data/bandpilot/topology"],
  ["topo/nvidia-smi"],
);

function parsed(text: string): HostTopology {
  const result = parseNvidiaSmiTopo(text, { source: "topo.txt" });
  if (result.kind === "refused") throw new Error(JSON.stringify(result.problems));
  return result.topology;
}

function problemsOf(text: string): readonly string[] {
  const result = parseNvidiaSmiTopo(text, { source: "t" });
  if (result.kind === "parsed") throw new Error("was not refused");
  return result.problems.map((problem) => problemText("t", problem));
}

const ALL_8 = [[0, 1, 2, 3, 4, 5, 6, 7]];
const APART_8 = ALL_8.flat().map((gpu) => [gpu]);
/** What each sample must say: NVLink domains, network cards, and the last GPU's affinity. */
const WANT: Readonly<Record<string, { domains: number[][]; nics: number; last: GpuAffinity }>> = {
  "2gpu-nvlink2.txt": { domains: [[0, 1]], nics: 0, last: { cpuAffinity: "0-23" } },
  "2gpu-phb.txt": { domains: [[0], [1]], nics: 0, last: { cpuAffinity: "0-11" } },
  "6gpu-soc-legacy.txt": { domains: APART_8.slice(0, 6), nics: 0, last: {} },
  "8gpu-node-sys.txt": { domains: APART_8, nics: 0, last: at("32-63,96-123", 1) },
  "8gpu-pix-pairs.txt": { domains: APART_8, nics: 0, last: at("24-47,72-95", 1) },
  "a100-4gpu-1nic-della.txt": { domains: [[0, 1, 2, 3]], nics: 1, last: at("24-47", 1) },
  "a100-4gpu-1nic-delta.txt": { domains: [[0, 1, 2, 3]], nics: 1, last: at("0-15", 0) },
  "a100-4gpu-3nic.txt": { domains: [[0, 1, 2, 3]], nics: 3, last: { numaNode: 1 } },
  "a100-4gpu-nv12.txt": { domains: [[0, 1, 2, 3]], nics: 0, last: at("32-63,96-127", 1) },
  "a100-8gpu-2nic.txt": { domains: ALL_8, nics: 2, last: at("32-63,96-127", 1) },
  "a100-8gpu-3nic-4numa.txt": { domains: ALL_8, nics: 3, last: at("60-79,140-159", 3) },
  "a100-8gpu-4nic-sys.txt": { domains: ALL_8, nics: 4, last: at("64-127,192-254", 1) },
  "a100-8gpu.txt": { domains: ALL_8, nics: 0, last: at("24-47", 1) },
  "a6000-3gpu-nvlink-pair.txt": { domains: [[0, 1], [2]], nics: 0, last: at("0-31,64-95", 0) },
  "aws-p3.8xlarge-4v100.txt": {
    domains: [[0, 1, 2, 3]],
    nics: 0,
    last: { cpuAffinity: "0-31" },
  },
  "aws-p4d.24xlarge.txt": { domains: ALL_8, nics: 0, last: at("24-47,72-95", 1) },
  "dgx1-v100-8gpu-4nic.txt": { domains: ALL_8, nics: 4, last: { cpuAffinity: "20-39,60-79" } },
  "h100-8gpu-1numa-vm.txt": { domains: ALL_8, nics: 0, last: at("0-63", 0) },
  "h100-8gpu-6nic-della.txt": { domains: ALL_8, nics: 6, last: at("1", 1) },
  "h100-8gpu-a.txt": { domains: ALL_8, nics: 0, last: at("52-103", 1) },
  "k80-4gpu.txt": { domains: [[0], [1], [2], [3]], nics: 0, last: { cpuAffinity: "0-11" } },
  "rtx4090-8gpu-8numa.txt": { domains: APART_8, nics: 0, last: at("64-79,192-207", 4) },
  "v100-8gpu-1nic.txt": { domains: ALL_8, nics: 1, last: { cpuAffinity: "12-23,36-47" } },
  "4090_topo.txt": { domains: APART_8, nics: 0, last: {} },
  "A6000_topo.txt": {
    domains: [
      [0, 1],
      [2, 3],
      [4, 5],
      [6, 7],
    ],
    nics: 0,
    last: {},
  },
  "A800_topo.txt": { domains: ALL_8, nics: 0, last: {} },
  "H100_topo.txt": { domains: ALL_8, nics: 0, last: {} },
  "V100_topo.txt": { domains: ALL_8, nics: 0, last: {} },
};

function at(cpuAffinity: string, numaNode: number): GpuAffinity {
  return { cpuAffinity, numaNode };
}

describe("outputs of real machines", () => {
  test.each(SAMPLES)("$name reads as it looks", ({ name, text }) => {
    const topology = parsed(text);
    expect(topology.gpus).toHaveLength(topology.gpuCount);
    for (const nic of topology.nics) expect(nic.gpuLinks).toHaveLength(topology.gpuCount);
    const want = WANT[name];
    if (want === undefined) return; // A sample that was added to the shared folder later.
    expect(nvlinkDomains(topology)).toEqual(want.domains);
    expect(topology.nics).toHaveLength(want.nics);
    expect(topology.gpus.at(-1)).toEqual(want.last);
  });

  test.each(SAMPLES)("$name has in each place the label that its text has there", ({ text }) => {
    const topology = parsed(text);
    const rows = text.split("\n").flatMap((line) => {
      const cells = line.split(/[\s|]+/).filter((cell) => cell !== "");
      const isRow = /^GPU\d+$/.test(cells[0] ?? "") && !/^GPU\d+$/.test(cells[1] ?? "GPU0");
      return isRow ? [cells.slice(1, 1 + topology.gpuCount)] : [];
    });
    expect(topology.links.map((row) => row.map(labelOf))).toEqual(rows);
  });

  test("network cards are named by their legend and keep their distance to each GPU", () => {
    const { nics } = parsed(fixtureText("nvidia-smi/dgx1-v100-8gpu-4nic.txt"));
    expect(nics[0]).toEqual({
      label: "mlx5_0",
      device: "mlx5_0",
      gpuLinks: ["pix", "pix", "phb", "phb", "sys", "sys", "sys", "sys"],
    });
  });

  test("a topology survives JSON unchanged", () => {
    const topology = parsed(dataText("bandpilot/topology/V100_topo.txt"));
    expect(JSON.parse(JSON.stringify(topology))).toEqual(topology);
  });
});

const pciPath = fc.constantFrom<PciPath>("pix", "pxb", "phb", "node", "sys");
const link: fc.Arbitrary<LinkKind> = fc.oneof(
  pciPath,
  fc.integer({ min: 1, max: 18 }).map((lanes): LinkKind => ({ kind: "nvlink", lanes })),
);
const cores = fc.constantFrom("0-23", "0-23,48-71", "7", "0-15,128-143", "1,3");

const topologies: fc.Arbitrary<HostTopology> = fc
  .tuple(fc.integer({ min: 1, max: 16 }), fc.integer({ min: 0, max: 4 }))
  .chain(([gpuCount, nicCount]) =>
    fc.record({
      pairs: fc.array(link, { minLength: gpuCount * gpuCount, maxLength: gpuCount * gpuCount }),
      nicLinks: fc.array(fc.array(pciPath, { minLength: gpuCount, maxLength: gpuCount }), {
        minLength: nicCount,
        maxLength: nicCount,
      }),
      gpus: fc.array(fc.record({ cpuAffinity: cores, numaNode: fc.nat(7) }), {
        minLength: gpuCount,
        maxLength: gpuCount,
      }),
    }),
  )
  .map(({ pairs, nicLinks, gpus }) => {
    const pair = (a: number, b: number): LinkKind =>
      a === b ? "self" : (pairs[Math.min(a, b) * gpus.length + Math.max(a, b)] ?? "sys");
    return {
      gpuCount: gpus.length,
      links: gpus.map((_, a) => gpus.map((__, b) => pair(a, b))),
      gpus,
      nics: nicLinks.map((gpuLinks, nic): Nic => {
        return { label: `NIC${nic}`, device: `mlx5_${nic}`, gpuLinks };
      }),
    };
  });

const styles: fc.Arbitrary<TopoStyle> = fc.record({
  cells: fc.constantFrom("tabs", "spaces", "markdown"),
  lineEnd: fc.constantFrom("\n", "\r\n"),
  isUnderlined: fc.boolean(),
  hasLegend: fc.constant(true),
  nicsIn: fc.constantFrom("both", "columns", "rows"),
  affinity: fc.constantFrom("none", "cpu", "cpu+numa", "cpu+numa+gpu"),
  prefix: fc.constantFrom("", "0: ", "node-1: "),
});

/** What a style leaves of the affinities. */
function withoutHidden(topology: HostTopology, { affinity }: TopoStyle): HostTopology {
  const gpus = topology.gpus.map(({ cpuAffinity, numaNode }) => ({
    ...(affinity !== "none" && cpuAffinity !== undefined && { cpuAffinity }),
    ...(affinity.startsWith("cpu+") && numaNode !== undefined && { numaNode }),
  }));
  return { ...topology, gpus };
}

describe("made-up topologies", () => {
  test("any topology, written in any style, reads back the same", () => {
    fc.assert(
      fc.property(topologies, styles, (topology, style) => {
        const plain = style.cells === "markdown" ? { ...style, prefix: "" } : style;
        expect(parsed(topoText(topology, plain))).toEqual(withoutHidden(topology, plain));
      }),
      { numRuns: caseCount(300) },
    );
  });

  test("an empty CPU affinity is unknown, and does not push the NUMA node into its place", () => {
    const topology: HostTopology = {
      gpuCount: 2,
      links: [
        ["self", { kind: "nvlink", lanes: 12 }],
        [{ kind: "nvlink", lanes: 12 }, "self"],
      ],
      gpus: [{ numaNode: 0 }, { cpuAffinity: "32-63", numaNode: 1 }],
      nics: [],
    };
    for (const cells of ["tabs", "spaces", "markdown"] as const) {
      expect(parsed(topoText(topology, { ...PLAIN_STYLE, cells })).gpus).toEqual(topology.gpus);
    }
  });

  test("nvidia-smi's second tab before a short cell is alignment, not a column", () => {
    const text = "\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \t\t3\t\tN/A\n";
    expect(parsed(text).gpus).toEqual([{ numaNode: 3 }]);
  });

  test.each([
    ["0-71", "0", "1"],
    ["0-71", "0,2-17", "N/A"],
  ])("one Grace GPU with cores %s and nodes %s is on node 0", (cpu, numa, gpuNuma) => {
    const text = `\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \t${cpu}\t${numa}\t\t${gpuNuma}\n`;
    expect(parsed(text).gpus).toEqual([{ cpuAffinity: "0-71", numaNode: 0 }]);
  });

  test("PSB of old drivers is a single switch", () => {
    expect(parsed("\tGPU0\tGPU1\nGPU0\tX\tPSB\nGPU1\tPSB\tX\n").links[0]).toEqual(["self", "pix"]);
  });
});

describe("refusals name line, column, value and remedy", () => {
  const lines = (...rows: string[]): string => rows.join("\n");
  const head = "        GPU0    GPU1    GPU2    CPU Affinity";
  const row0 = "GPU0     X      NV2     SYS     0-7";
  const row1 = "GPU1    NV2      X      SYS     0-7";
  const row2 = "GPU2    SYS     SYS      X      8-15";
  test.each<{ name: string; text: string; want: RegExp[] }>([
    { name: "nothing", text: " \n", want: [/^t:1: the text is empty/] },
    {
      name: "another text",
      text: "hello\nworld",
      want: [
        /^t:1: no line names the columns .*; give the output of nvidia-smi topo -m with its h/,
      ],
    },
    {
      name: "a matrix without its header",
      text: lines(row0, row1, row2),
      want: [/no line names the columns/],
    },
    {
      name: "missing rows",
      text: lines(head, row0, row1),
      want: [/^t:3: the matrix ends at line 3; GPU2 has a column but no row; copy/],
    },
    {
      name: "a row cut off",
      text: lines(head, row0, row1, "GPU2    SYS     SY"),
      want: [/^t:4: row GPU2 has 2 links and needs 3/],
    },
    {
      name: "a row that lacks a cell",
      text: lines(head, row0, "GPU1    NV2     SYS     0-7", row2),
      want: [/^t:3:25: row GPU1 has 2 links and needs 3/],
    },
    {
      name: "a row with a cell too many",
      text: lines(head, row0, "GPU1    NV2      X      SYS     SYS     0-7", row2),
      want: [/^t:3:41: row GPU1 goes on after its last column with "0-7"/],
    },
    {
      name: "an unknown label",
      text: lines(head, row0.replace("SYS", "FOO"), row1, row2),
      want: [/^t:2:25: GPU0 to GPU2 says "FOO"; the labels are X, NV1/],
    },
    {
      name: "NV# of the legend in place of a number",
      text: lines(head, row0.replace("NV2", "NV#"), row1, row2),
      want: [/^t:2:17: GPU0 to GPU1 says "NV#"/],
    },
    {
      name: "two directions that differ",
      text: lines(head, row0, row1.replace("NV2", "NV4"), row2),
      want: [/^t:3:9: GPU1 to GPU0 says NV4, but GPU0 to GPU1 says NV2 \(line 2\)/],
    },
    {
      name: "X beside the diagonal",
      text: lines(head, row0, "GPU1     X      NV2     SYS     0-7", row2),
      want: [/^t:3:10: GPU1 to GPU0 says "X"/, /^t:3:17: GPU1 to GPU1 says "NV2"/],
    },
    {
      name: "a GPU left out",
      text: "\tGPU0\tGPU2\nGPU0\tX\tSYS\nGPU2\tSYS\tX\n",
      want: [/^t:1: column GPU1 is missing: the header names GPU0, GPU2/],
    },
    {
      name: "a row for which there is no column",
      text: "\tGPU0\nGPU0\tX\nGPU1\tSYS\n",
      want: [/^t:3: GPU1 has a row but no column/],
    },
    {
      name: "two hosts in one text",
      text: lines(head, row0, row1, row2, "", head, row0, row1, row2),
      want: [/^t:6: a second matrix begins here/],
    },
    {
      name: "an affinity that is none",
      text: lines(head, row0.replace("0-7", "cores"), row1, row2),
      want: [/^t:2:33: CPU affinity of GPU0 is "cores"; it is a list of numbers/],
    },
    {
      name: "an NVLink to a network card",
      text: "\tGPU0\tNIC0\nGPU0\tX\tNV4\nNIC0\tNV4\tX\n",
      want: [/^t:2:8: GPU0 to NIC0 says NV4, but a network card has no NVLink/],
    },
    {
      name: "the peer-to-peer matrix",
      text: " \tGPU0\tGPU1\n GPU0\tX\tOK\n GPU1\tOK\tX\n",
      want: [/topo -p2p; give that of nvidia-smi topo -m/, /"OK"/],
    },
    {
      name: "an escape sequence in a label",
      text: "\tGPU0\tGPU1\nGPU0\tX\t\u202eSYS\nGPU1\tSYS\tX\n",
      want: [/^t:2:8: GPU0 to GPU1 says "\\u202eSYS"/],
    },
  ])("$name", ({ text, want }) => {
    const found = problemsOf(text);
    expect(found).toHaveLength(want.length);
    for (const [index, pattern] of want.entries()) expect(found[index]).toMatch(pattern);
  });

  test("a text with a thousand wrong cells is answered with 20 problems and a count", () => {
    const labels = Array.from({ length: 32 }, (_, gpu) => `GPU${gpu}`);
    const text = [
      labels.join(" "),
      ...labels.map((l) => [l, ...labels.map(() => "BAD")].join(" ")),
    ];
    const found = problemsOf(`  ${text.join("\n")}`);
    expect(found).toHaveLength(21);
    expect(found.at(-1)).toMatch(/and 1004 more problems/);
  });

  test("a text that is cut anywhere is refused or means the same", () => {
    const text = topoText(parsed(fixtureText("nvidia-smi/dgx1-v100-8gpu-4nic.txt")), PLAIN_STYLE);
    const whole = parsed(text);
    for (let end = 0; end < text.length; end += 1) {
      const result = parseNvidiaSmiTopo(text.slice(0, end), { source: "cut" });
      if (result.kind === "parsed") expect(result.topology.links).toEqual(whole.links);
    }
  });

  test("no text makes the parser throw", () => {
    const word = fc.constantFrom(
      "GPU0",
      "GPU1",
      "NIC0",
      "X",
      "NV2",
      "SYS",
      "|",
      "\t",
      " ",
      "0-7",
      "N/A",
    );
    const text = fc
      .array(fc.oneof(word, fc.constant("\n"), fc.string()))
      .map((parts) => parts.join(" "));
    fc.assert(
      fc.property(text, (any) => {
        const result = parseNvidiaSmiTopo(any, { source: "any" });
        if (result.kind === "refused") expect(result.problems.length).toBeGreaterThan(0);
        else expect(result.topology.gpuCount).toBeGreaterThan(0);
      }),
      { numRuns: caseCount(500) },
    );
  });
});
