/** @file Logs of nccl-tests over several hosts as the bandwidth of a cluster, and why others are refused. */

import { describe, expect, it } from "vitest";
import { bandwidthLookup } from "../../../domain/bandwidth/bandwidth-table.ts";
import type { FleetFile } from "../../../domain/fleet/fleet-file.ts";
import {
  clusterBandwidth,
  parseMeasurements,
  surveyOf,
} from "../../../domain/bandwidth/measured-bandwidth.ts";
import { fleetOf, problemsOf, type Texts } from "../fleet-text.ts";
import { ncclRunText } from "../nccl-text.ts";

const PAIR = { a: [0, 1], b: [0, 1] };
const LOGS: Texts = {
  "ab.log": ncclRunText({ op: "all_reduce", gpusByHost: PAIR, gbs: 40 }),
  "ab-gather.log": ncclRunText({ op: "all_gather", gpusByHost: PAIR, gbs: 99 }),
  "ab-again.log": ncclRunText({ op: "all_reduce", gpusByHost: PAIR, gbs: 44 }),
  "bc.log": ncclRunText({ op: "all_gather", gpusByHost: { c: [1], b: [0] }, gbs: 20 }),
  "a2a.log": ncclRunText({ op: "alltoall", gpusByHost: PAIR, gbs: 5 }),
  "a.log": ncclRunText({ op: "all_reduce", gpusByHost: { a: [0, 1] }, gbs: 300 }),
  "gone.log": ncclRunText({ op: "all_reduce", gpusByHost: PAIR, gbs: 40 }).replace(
    /.*Rank.*\n/g,
    "",
  ),
  "part.log": ncclRunText({ op: "all_reduce", gpusByHost: PAIR, gbs: 40 }).replace(
    /.*Rank 1.*\n/,
    "",
  ),
};

const cluster = (names: string, bandwidth: FleetFile["clusters"][number]["bandwidth"]) => ({
  clusters: [
    {
      name: "k",
      site: "s",
      jurisdiction: "EU",
      hosts: [{ name: names, gpus: 2, type: "H100" }],
      ...(bandwidth !== undefined && { bandwidth }),
    },
  ],
});
const tableOf = (file: FleetFile) => [...fleetOf(file, LOGS).interHost.values()][0];

describe("a log over several hosts", () => {
  it("is a set of the cluster, matched by the names of its hosts", () => {
    const file: FleetFile = cluster("a", "ab.log");
    file.clusters[0]?.hosts.push({ name: "b", gpus: 2, type: "H100" });
    const table = tableOf(file);
    expect(table).toMatchObject({ hosts: ["k/a", "k/b"], op: "all_reduce" });
    expect(table?.sets).toEqual([{ masks: [3, 3], gbs: [40] }]);
  });

  it("is matched in order of appearance where hosts are named", () => {
    const table = tableOf(cluster("h[1-2]", { file: "bc.log", hosts: ["h2", "h1"] }));
    expect(table?.hosts).toEqual(["k/h2", "k/h1"]);
    expect(table?.sets).toEqual([{ masks: [2, 1], gbs: [20] }]);
  });

  it("joins others in a list; all_reduce goes before other collectives of the same set", () => {
    const named = (file: string, ...hosts: string[]) => ({ file, hosts });
    const table = tableOf(
      cluster("h[1-3]", [
        named("ab-gather.log", "h1", "h2"),
        named("ab.log", "h1", "h2"),
        named("bc.log", "h3", "h2"),
        named("ab-again.log", "h1", "h2"),
      ]),
    );
    expect(table?.hosts).toEqual(["k/h1", "k/h2", "k/h3"]);
    expect(table?.op).toBeUndefined();
    expect(table?.sets).toEqual([
      { masks: [3, 3, 0], gbs: [40, 44] },
      { masks: [0, 1, 2], gbs: [20] },
    ]);
    expect(table && bandwidthLookup(table)([3, 3, 0])).toBe(42);
  });

  it.each([
    [
      "the hosts of another cluster",
      "ab.log",
      'clusters[0].bandwidth: "ab.log": the cluster has no host "a"; write {file: …, hosts: […]} with 2 hosts of the cluster, in the order a, b',
    ],
    [
      "another collective",
      "a2a.log",
      'clusters[0].bandwidth: "a2a.log": the run from line 1 is alltoall, whose bandwidth is not that of an all-reduce; give a log of all_reduce, all_gather or reduce_scatter',
    ],
    [
      "one host",
      "a.log",
      'clusters[0].bandwidth: "a.log": no run of the log spans several hosts (it has a); give it as the bandwidth of the host',
    ],
    [
      "no ranks, in a list",
      ["gone.log"],
      'clusters[0].bandwidth[0]: "gone.log": the run from line 1 names no hosts: its rank lines are missing, and nobody can say whose GPUs it measured; give the whole log with its lines `# Rank … on <host> device …`',
    ],
    [
      "a part of its ranks",
      "part.log",
      'clusters[0].bandwidth: "part.log": the run from line 1 names ranks up to 3, but lists only 3 of them, so not all its GPUs are known; give the whole log',
    ],
  ])("is refused with %s", (_, bandwidth, want) => {
    expect(problemsOf(cluster("h[1-2]", bandwidth), LOGS)).toEqual([want]);
  });

  it("is refused as the bandwidth of one host, with the hosts that it spans", () => {
    const file = cluster("h", undefined);
    const [first] = file.clusters;
    const hosts = [{ name: "h", gpus: 2, type: "H100", bandwidth: "ab.log" }];
    expect(problemsOf({ clusters: [{ ...first, hosts }] }, LOGS)).toEqual([
      "clusters[0].hosts[0].bandwidth: the run from line 1 spans 2 hosts (a, b), which is a measurement of the cluster, not of one host; give it as the bandwidth of the cluster",
    ]);
  });

  it("mistakes inside a list of files are told at their place", () => {
    const file = cluster("h", undefined);
    const [first] = file.clusters;
    const bandwidth = [{ fil: "ab.log", file: "ab.log" }, 5];
    const problems = problemsOf({ clusters: [{ ...first, bandwidth }] }, LOGS);
    expect(problems.map((problem) => problem.slice(0, 25))).toEqual([
      "clusters[0].bandwidth[0].",
      "clusters[0].bandwidth[1]:",
    ]);
  });
});

it("the name of a file tells the collective where its text does not", () => {
  const text = (LOGS["ab.log"] ?? "").replace(/.*starting.*\n/, "").replace("sum ", "none");
  const read = (source: string) => {
    const parsed = parseMeasurements(text, source);
    if (parsed.kind === "refused") throw new Error("refused");
    return surveyOf(parsed.value).kind;
  };
  expect(read("n2-all_gather.txt")).toBe("read");
  expect(read("n2-alltoall.txt")).toBe("refused");
  expect(read("log.txt")).toBe("refused");
});

it("a survey counts the GPUs of each host and names their device", () => {
  const parsed = parseMeasurements(LOGS["bc.log"] ?? "", "bc.log");
  if (parsed.kind === "refused") throw new Error("refused");
  const device = "NVIDIA H100 80GB HBM3";
  expect(surveyOf(parsed.value)).toEqual({
    kind: "read",
    value: {
      hosts: [
        { name: "c", gpuCount: 2, device, isInside: false },
        { name: "b", gpuCount: 1, device, isInside: false },
      ],
      isOverHosts: true,
    },
  });
  const gpuCounts = new Map([
    ["b", 1],
    ["c", 1],
  ]);
  expect(clusterBandwidth(parsed.value, { gpuCounts, hosts: undefined })).toMatchObject({
    kind: "refused",
    message: 'GPU 1 of "c" is measured, the host has 1 GPUs',
  });
});
