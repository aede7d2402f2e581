/** @file NCCL's topology XML reads as the tree says, and what is wrong with it is refused by its line. */

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { parseTopology } from "../../../domain/bandwidth/parse-topology.ts";
import { problemText } from "../../../domain/values/problem.ts";
import { nvlinkDomains, type HostTopology } from "../../../domain/values/topology.ts";
import { fixtureText } from "../samples.ts";

const TEXT = fixtureText("fabric/nvswitch-2gpu.nccl.xml");
const SHARED = fileURLToPath(
  new URL("../../../../shared/datasets/topo/nccl-xml/", import.meta.url),
);

function parsed(text: string): HostTopology {
  const result = parseTopology(text, { source: "f" });
  if (result.kind === "refused") throw new Error(JSON.stringify(result.problems));
  return result.topology;
}

function problemsOf(text: string): readonly string[] {
  const result = parseTopology(text, { source: "f" });
  if (result.kind === "parsed") throw new Error("was not refused");
  return result.problems.map((problem) => problemText("f", problem));
}

test("NVSwitches join GPUs by all their lanes; NICs are as far as the tree says", () => {
  expect(parsed(TEXT)).toEqual({
    gpuCount: 2,
    links: [
      ["self", { kind: "nvlink", lanes: 9 }],
      [{ kind: "nvlink", lanes: 9 }, "self"],
    ],
    gpus: [
      { cpuAffinity: "0-23", numaNode: 0 },
      { cpuAffinity: "24-47", numaNode: 1 },
    ],
    nics: [
      { label: "NIC0", device: "mlx5_0", gpuLinks: ["pix", "sys"] },
      { label: "NIC1", device: "eth0", gpuLinks: ["sys", "phb"] },
    ],
  });
});

test("GPUs are numbered as NCCL numbers them, else by bus id", () => {
  const turned = TEXT.replace('dev="0" sm', 'dev="1" sm').replace(
    'dev="1" sm="90" rank="1"',
    'dev="0" sm="90" rank="1"',
  );
  expect(parsed(turned).gpus.map(({ numaNode }) => numaNode)).toEqual([1, 0]);
  expect(parsed(TEXT.replaceAll(/ dev="\d"/g, "")).gpus.map(({ numaNode }) => numaNode)).toEqual([
    0, 1,
  ]);
});

test("links to other GPUs are counted each way", () => {
  const pair = (own: string, other: string): string =>
    `<pci busid="0000:${own}:00.0" class="0x030200"><gpu dev="${Number(own) - 1}"><nvlink target="0000:${other}:00.0" count="2" tclass="0x030200"/></gpu></pci>`;
  const text = `<system version="1"><cpu numaid="-1">${pair("01", "02")}${pair("02", "01")}</cpu></system>`;
  const topology = parsed(text);
  expect(topology.links[0]?.[1]).toEqual({ kind: "nvlink", lanes: 2 });
  expect(topology.gpus[0]).toEqual({});
});

test.runIf(existsSync(SHARED)).each([
  ["azure-ndv2-topo.xml", 8],
  ["azure-ndv4-topo.xml", 8],
])("%s of a cloud has %i GPUs and no NVLink, which it does not list", (name, gpus) => {
  const topology = parsed(readFileSync(join(SHARED, name), "utf8"));
  expect(topology.gpuCount).toBe(gpus);
  expect(nvlinkDomains(topology)).toHaveLength(gpus);
});

describe("refusals name line, value and remedy", () => {
  test.each<{ name: string; text: string; want: RegExp }>([
    {
      name: "another document",
      text: "<graphs/>",
      want: /^f:1: the document is <"graphs">, not <system>; give a topology file of NCCL/,
    },
    {
      name: "an end that is missing",
      text: TEXT.replace("</system>", ""),
      want: /^f:3: <"system"> has no end/,
    },
    {
      name: "an element that is not closed",
      text: TEXT.replace("</nic>", ""),
      want: /ends an element, but nic of line 14 is open/,
    },
    {
      name: "an attribute without quotes",
      text: TEXT.replace('numaid="0"', "numaid=0"),
      want: /^f:4: <"cpu"> has "numaid=0/,
    },
    { name: "no GPU", text: "<system><cpu/></system>", want: /^f:1: no element is a GPU/ },
    {
      name: "a busid that is none",
      text: TEXT.replace("0000:1b:00.0", "gpu0"),
      want: /^f:7: a pci element has busid "gpu0"/,
    },
    {
      name: "a device twice",
      text: TEXT.replace("0000:9b:00.0", "0000:1b:00.0"),
      want: /^f:23: busid 0000:1b:00.0 stands in line 7, too/,
    },
    {
      name: "hidden GPUs",
      text: TEXT.replace('dev="1" sm', 'dev="3" sm'),
      want: /^f:24: GPUs are numbered 0, 3; 1 is missing; dump/,
    },
    {
      name: "two hosts",
      text: TEXT.replace(/7701(?=" numaid="1")/, "0000"),
      want: /^f:21: a CPU of another host begins here/,
    },
    {
      name: "a count that is none",
      text: TEXT.replace('count="4"', 'count="x"'),
      want: /^f:9: an nvlink of GPU0 has count "x"/,
    },
  ])("$name", ({ text, want }) => {
    expect(problemsOf(text)[0]).toMatch(want);
  });
});
