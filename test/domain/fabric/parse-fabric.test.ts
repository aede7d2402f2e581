/** @file Racks from ibnetdiscover, Slurm and NVLink's fabric section: every form reads, and what is wrong is refused by its line. */

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Fabric } from "../../../domain/fabric/fabric-hosts.ts";
import { parseFabric } from "../../../domain/fabric/parse-fabric.ts";
import { problemText } from "../../../domain/values/problem.ts";
import { fixtureText } from "../samples.ts";
import { caseCount } from "../../support/case-count.ts";

function parsed(text: string, host = "h"): Fabric {
  const result = parseFabric(text, { source: "f", host });
  if (result.kind === "refused") throw new Error(JSON.stringify(result.problems));
  return result.fabric;
}

const racks = (text: string): Record<string, string | undefined> =>
  Object.fromEntries(parsed(text).hosts.map(({ name, rack }) => [name, rack]));

function problemsOf(text: string): readonly string[] {
  const result = parseFabric(text, { source: "f", host: "h" });
  if (result.kind === "parsed") throw new Error("was not refused");
  return result.problems.map((problem) => problemText("f", problem));
}

const Q = fixtureText("fabric/gb200.nvidia-smi-q.txt");
const NVL = "nvl-7d1b3e0a-52c4-4d0e-9a41-6f0c9be21d77-32766";

describe("racks", () => {
  test.each<[string, Record<string, string>]>([
    [
      "rails.ibnetdiscover.txt",
      // Host 4 has lost its second cable; it stays with those that share its first switch.
      {
        "gpu-001": "su1-leaf-r1",
        "gpu-002": "su1-leaf-r1",
        "gpu-003": "su2-leaf-r1",
        "gpu-004": "su2-leaf-r1",
      },
    ],
    ["ports.ibnetdiscover-p.txt", { node01: "leaf-a", node02: "leaf-a", node03: "leaf-b" }],
    [
      "tree.topology.conf",
      {
        gpu001: "leaf1",
        gpu002: "leaf1",
        login1: "leaf1",
        gpu003: "leaf2",
        gpu004: "leaf2",
        gpu007: "leaf2",
      },
    ],
  ])("%s", (name, want) => {
    expect(racks(fixtureText(`fabric/${name}`))).toEqual(want);
  });

  test("blocks of topology.conf are racks, and the default topology of topology.yaml is taken", () => {
    const conf = parsed(fixtureText("fabric/block.topology.conf"));
    const yaml = parsed(fixtureText("fabric/two.topology.yaml"));
    expect(yaml.hosts).toEqual(conf.hosts);
    expect(conf.hosts).toHaveLength(36);
    expect(conf.hosts.at(-1)).toEqual({ name: "gb36", rack: "nvl2" });
    expect(yaml.notes[0]).toContain('"nvl" was taken; 2 more');
  });

  test("adapters that name no host are counted, not taken for hosts", () => {
    const { hosts, notes } = parsed(fixtureText("fabric/rails.ibnetdiscover.txt"));
    expect(hosts).toHaveLength(4);
    expect(notes).toEqual([expect.stringContaining("2 adapters name no host")]);
  });

  test("hosts on the rails of one unit share a rack, whichever of their ports stand first", () => {
    const lines = (order: readonly number[]): string =>
      order
        .map(
          (leaf) =>
            `Switch 64 "S-0${leaf}" # "leaf${leaf}" base port 0 lid ${leaf}\n` +
            [0, 1]
              .map(
                (host) =>
                  `[${host + 1}] "H-0${leaf}${host}"[1] # "n${2 * (leaf >> 1) + host} mlx5_${leaf & 1}" lid 9 4xEDR`,
              )
              .join("\n"),
        )
        .join("\n");
    fc.assert(
      fc.property(fc.shuffledSubarray([0, 1, 2, 3], { minLength: 4 }), (order) => {
        expect(racks(lines(order))).toEqual({ n0: "leaf0", n1: "leaf0", n2: "leaf2", n3: "leaf2" });
      }),
      { numRuns: caseCount(50) },
    );
  });
});

describe("descriptions of ports", () => {
  const line = (leaf: string, host: string): string =>
    `SW     7  1 0x0002c90200401234 4x QDR - CA     3  1 0x0002c90300001111 ( '${leaf}' - '${host}' )`;
  test.each<[string, string, Record<string, string>]>([
    [
      "an apostrophe in a switch's name",
      line("Ann's leaf", "node01 HCA-1"),
      { node01: "Ann-s-leaf" },
    ],
    ["a quoted name", line("leaf", "'node01 HCA-1'"), { node01: "leaf" }],
  ])("%s hides no cable", (_, text, want) => {
    expect(racks(text)).toEqual(want);
  });
});

describe("topology.conf in any layout", () => {
  test("a backslash at the end of the file continues nothing and loses nothing", () => {
    expect(racks("SwitchName=leaf1 \\\n Nodes=a\nSwitchName=leaf2 Nodes=b \\")).toEqual({
      a: "leaf1",
      b: "leaf2",
    });
  });

  const space = fc.constantFrom(" ", "  ", "\t", " \t ");
  const cased = fc.constantFrom("SwitchName", "switchname", "SWITCHNAME");
  test("keys in any case and order, any white space, continued lines, comments", () => {
    fc.assert(
      fc.property(space, cased, fc.boolean(), fc.boolean(), (gap, key, isTurned, isContinued) => {
        const pair = [`${key}=leaf1`, "Nodes=a[1-2],b3"];
        const line = (isTurned ? [...pair].reverse() : pair).join(
          isContinued ? `${gap}\\\n${gap}` : gap,
        );
        expect(racks(`# x\n\n${gap}${line}${gap}# y\r\n`)).toEqual({
          a1: "leaf1",
          a2: "leaf1",
          b3: "leaf1",
        });
      }),
      { numRuns: caseCount(100) },
    );
  });
});

describe("NVLink domains", () => {
  test("a host of an NVL72 has its domain, GPUs and device", () => {
    expect(parsed(Q, "gb01").hosts).toEqual([
      { name: "gb01", gpus: 2, rack: NVL, device: "NVIDIA GB200" },
    ]);
  });

  test("lines of a parallel shell are hosts of their own", () => {
    const text = ["b", "a"].map((host) => Q.replace(/^/gm, `${host}: `)).join("\n");
    expect(parsed(text).hosts.map(({ name, rack }) => [name, rack])).toEqual([
      ["b", NVL],
      ["a", NVL],
    ]);
  });

  test.each(["00000000-0000-0000-0000-000000000000", "N/A"])(
    "ClusterUUID %s is NVLink inside the host alone",
    (uuid) => {
      const { hosts, notes } = parsed(Q.replace(/7d1b\S+/g, uuid));
      expect(hosts[0]).toEqual({ name: "h", gpus: 2, device: "NVIDIA GB200" });
      expect(notes[0]).toContain("no NVLink domain");
    },
  );

  test("the XML of nvidia-smi -q -x says the same", () => {
    const gpu = `<gpu id="0"><product_name>NVIDIA GB200</product_name><fabric><state>Completed</state><cliqueId>32766</cliqueId><clusterUuid>7d1b3e0a-52c4-4d0e-9a41-6f0c9be21d77</clusterUuid></fabric></gpu>`;
    const text = `<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "x.dtd">\n<nvidia_smi_log>\n${gpu}\n${gpu}\n</nvidia_smi_log>\n`;
    expect(parsed(text).hosts).toEqual(parsed(Q).hosts);
  });
});

describe("refusals name line, value and remedy", () => {
  test.each<{ name: string; text: string; want: RegExp }>([
    {
      name: "another text",
      text: "hello",
      want: /^f:1: the text has none of the forms.*; give the output of ibnetdiscover/,
    },
    { name: "the matrix", text: "     GPU0\nGPU0  X\n", want: /--topology/ },
    {
      name: "an unknown key",
      text: "SwitchName=a Nodes=b\nSwitchName=c Node=d",
      want: /^f:2: "Node=d" is no key/,
    },
    {
      name: "a range with a space",
      text: "SwitchName=a Nodes=b[1, 2]",
      want: /^f:1: .*ranges have no spaces/,
    },
    {
      name: "a range that runs backwards",
      text: "SwitchName=a Nodes=b[3-1]",
      want: /^f:1: range "3-1" runs backwards/,
    },
    {
      name: "a host at two switches",
      text: "SwitchName=a Nodes=n1\nSwitchName=b Nodes=n1",
      want: /^f:2: host "n1" is at "b" and at "a" \(line 1\)/,
    },
    {
      name: "a switch twice",
      text: "SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2",
      want: /^f:2: "a" is described in line 1/,
    },
    {
      name: "a switch that no line describes",
      text: "SwitchName=a Switches=s[1-2]\nSwitchName=s1 Nodes=n1",
      want: /^f:1: switch "a" has switch "s2"/,
    },
    {
      name: "no nodes",
      text: "SwitchName=a Switches=b\nSwitchName=b Switches=a",
      want: /^f:1: no switch and no block has a node/,
    },
    {
      name: "a flat topology",
      text: "- topology: t\n  flat: true\n",
      want: /^f:1: no topology has a tree or a block; flat/,
    },
    {
      name: "a switch without a name",
      text: "- topology: t\n  tree:\n    switches:\n      - nodes: a1\n",
      want: /^f:4: an entry of switches has no name/,
    },
    {
      name: "a port that is cut",
      text: 'Switch 64 "S-1" # "leaf" base\n[1] "H-2',
      want: /^f:2: "\[1\].* is no port and no node/,
    },
    {
      name: "a cable whose other end is cut",
      text: `${fixtureText("fabric/ports.ibnetdiscover-p.txt").trimEnd()}\nSW 7 1 0x0002c90200401234 4x QDR - CA 3 1 0x0002c90300001111 ( 'leaf-a' - 'no`,
      want: /^f:9: "SW 7 .* is no port and no node/,
    },
    {
      name: "only nameless adapters",
      text: 'Switch 64 "S-1" # "leaf" base\n[1] "H-2"[1] # "MT4129 ConnectX7   Mellanox Technologies" lid 1',
      want: /^f:1: none of 1 adapters names its host/,
    },
    {
      name: "a fabric that is not ready",
      text: Q.replace(/Completed/g, "In Progress"),
      want: /^f:\d+: the fabric of a GPU is "In Progress"; wait/,
    },
    {
      name: "GPUs in two domains",
      text: Q.replace("32766", "1"),
      want: /GPU 1 of "h" is in nvl-.*32766/,
    },
    {
      name: "a UUID that is none",
      text: Q.replace(/7d1b\S+/g, "7d1b"),
      want: /ClusterUUID is "7d1b" and CliqueId "32766"; both are/,
    },
    { name: "no GPU", text: "==============NVSMI LOG==============\n", want: /lists no GPU/ },
  ])("$name", ({ text, want }) => {
    expect(problemsOf(text)[0]).toMatch(want);
  });

  test("a text that is cut anywhere is read or refused, never thrown at", () => {
    const texts = [
      "rails.ibnetdiscover.txt",
      "two.topology.yaml",
      "gb200.nvidia-smi-q.txt",
      "tree.topology.conf",
    ];
    fc.assert(
      fc.property(fc.constantFrom(...texts), fc.nat(4000), (name, at) => {
        const result = parseFabric(fixtureText(`fabric/${name}`).slice(0, at), {
          source: "f",
          host: "h",
        });
        expect(["parsed", "refused"]).toContain(result.kind);
      }),
      { numRuns: caseCount(200) },
    );
  });
});
