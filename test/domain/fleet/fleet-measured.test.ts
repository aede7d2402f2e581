/** @file The files that a fleet file names: topologies and measured bandwidths, and what is said when they do not fit. */

import { describe, expect, it } from "vitest";
import type { FleetFile, HostEntry } from "../../../domain/fleet/fleet-file.ts";
import { bandwidthText, fleetOf, problemsOf, topologyText, yamlProblems } from "../fleet-text.ts";

const fleetWith = (
  hosts: HostEntry[],
  bandwidth?: FleetFile["clusters"][number]["bandwidth"],
): FleetFile => ({
  clusters: [
    {
      name: "c",
      site: "s",
      jurisdiction: "EU",
      hosts,
      ...(bandwidth !== undefined && { bandwidth }),
    },
  ],
});
const host = (change: Partial<HostEntry>): HostEntry => ({
  name: "h1",
  gpus: 2,
  type: "H100",
  ...change,
});

const NCCL = [
  "# nThread 1 nGpus 2 minBytes 16777216 maxBytes 16777216 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0",
  "#",
  "# Using devices",
  "#  Rank  0 Group  0 Pid   4242 on    node-a device  0 [0x07] NVIDIA H100 80GB HBM3",
  "#  Rank  1 Group  0 Pid   4242 on    node-a device  1 [0x0a] NVIDIA H100 80GB HBM3",
  "#",
  "#                                                              out-of-place                       in-place",
  "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong",
  "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)",
  "    16777216       4194304     float     sum      -1    100.0  167.77  167.77      0    100.0  167.77  167.77      0",
  "# Out of bounds values : 0 OK",
  "# Avg bus bandwidth    : 167.77",
  "",
].join("\n");

const SETS = [
  "op,n_gpus,n_hosts,gpus,mask_x,mask_y,bytes,bandwidth_gbs",
  "all_reduce_perf,2,2,0/0,1,1,16777216,38.5",
  "all_reduce_perf,4,2,0+1/0+1,3,3,16777216,70",
  "",
].join("\n");

describe("measured files fill the hosts", () => {
  it("a topology and a table go to every host of the entry", () => {
    const file = fleetWith([host({ name: "h[1-2]", topology: "topo.txt", bandwidth: "bw.csv" })]);
    const { details } = fleetOf(file, {
      "topo.txt": topologyText(2),
      "bw.csv": bandwidthText(["h2", "h1"]),
    });
    expect([...details.keys()]).toEqual(["c/h1", "c/h2"]);
    expect([...details.values()].map(({ topology }) => topology?.gpuCount)).toEqual([2, 2]);
    expect([...details.values()].map(({ bandwidth }) => bandwidth?.gbsByMask)).toEqual([
      [null, null, null, 201],
      [null, null, null, 200],
    ]);
  });

  it.each([
    ["of the only host in it", "bw.csv", ["any"], 200],
    ["of the host that is named", { file: "bw.csv", host: "b" }, ["a", "b"], 201],
    ["of the host with the same name", "bw.csv", ["a", "h1"], 201],
  ])("takes from a table the sets %s", (_, bandwidth, hosts, wantGbs) => {
    const { details } = fleetOf(fleetWith([host({ bandwidth })]), {
      "bw.csv": bandwidthText(hosts),
    });
    expect([...details.values()][0]?.bandwidth?.gbsByMask[3]).toBe(wantGbs);
  });

  it("takes from an nccl-tests log the GPU set of its ranks", () => {
    const { details } = fleetOf(fleetWith([host({ bandwidth: "nccl.txt" })]), { "nccl.txt": NCCL });
    expect([...details.values()][0]?.bandwidth).toEqual({
      gpuCount: 2,
      gbsByMask: [null, null, null, 167.77],
    });
  });

  it("a table over hosts belongs to the cluster and names its hosts by their ids", () => {
    const bandwidth = { file: "sets.csv", hosts: ["h2", "h1"] };
    const { interHost } = fleetOf(fleetWith([host({ name: "h[1-2]" })], bandwidth), {
      "sets.csv": SETS,
    });
    const [table] = interHost.values();
    expect([...interHost.keys()]).toEqual(["c"]);
    expect(table?.hosts).toEqual(["c/h2", "c/h1"]);
    expect(table?.sets.map(({ masks, gbs }) => [masks, gbs])).toEqual([
      [[1, 1], [38.5]],
      [[3, 3], [70]],
    ]);
  });
});

describe("a measured file that does not fit is named where the fleet names it", () => {
  it.each([
    [
      "a missing file",
      host({ topology: "no.txt" }),
      'clusters[0].hosts[0].topology: file "no.txt" cannot be read (does not exist); write its path relative to this file',
    ],
    [
      "a topology of other GPUs",
      host({ topology: "topo4.txt" }),
      'clusters[0].hosts[0].topology: "topo4.txt" shows 4 GPUs, the host has 2; write gpus: 4, or give the topology of this host',
    ],
    [
      "a table of other GPUs",
      host({ gpus: 4, bandwidth: "bw.csv" }),
      "clusters[0].hosts[0].bandwidth: the measurements are of 2 GPUs, the host has 4; write gpus: 2, or give the measurements of this host",
    ],
    [
      "an unknown host in the table",
      host({ bandwidth: { file: "two.csv", host: "H2" } }),
      'clusters[0].hosts[0].bandwidth: the file has no host "H2"; write {file: …, host: h2}; the file has h2, h3',
    ],
    [
      "no host chosen",
      host({ bandwidth: "two.csv" }),
      'clusters[0].hosts[0].bandwidth: the file has no host "h1"; write {file: …, host: h2}; the file has h2, h3',
    ],
    [
      "a log of more GPUs",
      host({ gpus: 1, bandwidth: "nccl.txt" }),
      "clusters[0].hosts[0].bandwidth: line 1 measures GPU 1, the host has 1; write gpus: 2, or give the log of this host",
    ],
    [
      "sets over hosts for one host",
      host({ bandwidth: "sets.csv" }),
      "clusters[0].hosts[0].bandwidth: the file has no GPU sets inside one host; give it as the bandwidth of the cluster",
    ],
    [
      "a host too large for tables",
      host({ gpus: 20, bandwidth: "bw.csv" }),
      "clusters[0].hosts[0].bandwidth: a table of 20 GPUs would have 2^20 entries; leave bandwidth out; tables hold up to 16 GPUs",
    ],
  ])("%s", (_, entry, want) => {
    const texts = {
      "topo4.txt": topologyText(4),
      "bw.csv": bandwidthText(["any"]),
      "two.csv": bandwidthText(["h2", "h3"]),
      "nccl.txt": NCCL,
      "sets.csv": SETS,
    };
    expect(problemsOf(fleetWith([entry]), texts)).toEqual([want]);
  });

  it.each([
    [
      "the wrong number of hosts",
      { file: "sets.csv", hosts: ["h1"] },
      /1 hosts are named, the file has 2; name 2 hosts of the cluster, in the order x, y/,
    ],
    [
      "a host that is not there",
      { file: "sets.csv", hosts: ["h1", "h3"] },
      /the cluster has no host "h3"; .*did you mean h1/,
    ],
    ["the file's own names", "sets.csv", /the cluster has no host "x"/],
    ["a host twice", { file: "sets.csv", hosts: ["h1", "h1"] }, /a host is named twice/],
    ["a table of one host", "bw.csv", /the file has no GPU sets over several hosts/],
  ])("a cluster's table with %s", (_, bandwidth, want) => {
    const texts = { "sets.csv": SETS, "bw.csv": bandwidthText(["h1"]) };
    const [problem, ...others] = problemsOf(
      fleetWith([host({ name: "h[1-2]" })], bandwidth),
      texts,
    );
    expect(problem).toMatch(want);
    expect(problem).toMatch(/^clusters\[0\]\.bandwidth: /);
    expect(others).toEqual([]);
  });

  it("a cluster's table that measures more GPUs than a host has", () => {
    const file = fleetWith([host({ name: "h[1-2]", gpus: 1 })], {
      file: "sets.csv",
      hosts: ["h1", "h2"],
    });
    expect(problemsOf(file, { "sets.csv": SETS })).toEqual([
      'clusters[0].bandwidth: "sets.csv": GPU 1 of "h1" is measured, the host has 1 GPUs; name the hosts in the order of the file\'s columns',
    ]);
  });
});

describe("what is wrong inside a measured file", () => {
  it("is told once, with that file's own name and line, beside the fleet file's problems", () => {
    const text = [
      "clusters:",
      "  - name: c",
      "    site: s",
      "    jurisdiction: EU",
      "    hosts:",
      "      - { name: a, gpus: 2, type: H100, topology: topo/bad.txt, watts: 5 }",
      "      - { name: b, gpus: 2, type: H100, topology: topo/bad.txt }",
    ].join("\n");
    const bad = topologyText(2).replace("NV18", "QQ");
    const problems = yamlProblems(text, { "topo/bad.txt": bad }, "conf/fleet.yaml");
    expect(problems[0]).toBe(
      "conf/fleet.yaml:6:72 clusters[0].hosts[0].watts: 5 has no unit; write 5 W",
    );
    expect(problems.slice(1).every((problem) => /^conf\/topo\/bad\.txt:\d+/.test(problem))).toBe(
      true,
    );
    expect(problems.filter((problem) => problem.includes("QQ"))).toHaveLength(1);
  });
});
