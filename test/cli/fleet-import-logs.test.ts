/** @file `fleet import` of nccl-tests logs alone: every sample is taken, and reads back, or is refused by its name. */

import { existsSync, mkdirSync, mkdtempSync, readdirSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { readText } from "../../cli/command/fleet-files.ts";
import { formatProblem } from "../../domain/values/file-problem.ts";
import { parseFleetYaml } from "../../domain/fleet/fleet-file.ts";
import { fleetYaml } from "../../domain/fleet/fleet-yaml.ts";
import { gpuTypeOfDevice } from "../../domain/values/gpu-device-name.ts";
import { parse } from "yaml";
import { ncclRunText } from "../domain/nccl-text.ts";
import { run } from "./run.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const FIXTURES = join(ROOT, "test", "fixtures", "nccl-tests");
const SHARED = join(ROOT, "..", "shared", "datasets", "nccl-tests");
/** The collection beside this checkout; a clone that stands alone has none. */
const LARGER = existsSync(SHARED) ? [SHARED] : [];

/** What the printed text makes, with a cluster around it where it is hosts alone. */
function readBack(text: string, cwd: string) {
  const hosts: unknown = parse(text);
  const whole = Array.isArray(hosts)
    ? fleetYaml({ clusters: [{ name: "c", site: "c", jurisdiction: "EU", hosts }] })
    : text;
  const parsed = parseFleetYaml(whole, { file: "f", read: (path) => readText(join(cwd, path)) });
  if (parsed.kind === "refused") throw new Error(parsed.problems.map(formatProblem).join("\n"));
  return parsed.fleet;
}

function filesUnder(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)))
    .sort();
}

/** Names of the files that are taken, and what is said of the others. */
async function importAll(cwd: string) {
  const taken: string[] = [];
  const refusals = new Map<string, string>();
  for (const file of filesUnder(cwd)) {
    const { code, stdout, stderr } = await run(["fleet", "import", "--bandwidth", file], { cwd });
    if (code === 0) {
      const fleet = readBack(stdout, cwd);
      expect(fleet.details.size + fleet.interHost.size, file).toBeGreaterThan(0);
      taken.push(file);
      continue;
    }
    expect({ code, stdout }, file).toEqual({ code: 2, stdout: "" });
    expect(stderr, file).toContain(file);
    expect(stderr, file).toMatch(/: .+; .+/);
    expect(stderr, file).not.toContain("the import");
    refusals.set(file, stderr);
  }
  return { taken, refusals };
}

describe("every sample log is taken or refused by its name and reason", () => {
  it("those of the repository", async () => {
    const { taken, refusals } = await importAll(FIXTURES);
    expect(taken).toEqual(["coreweave-a100-all_gather_2.txt", "coreweave-a100-all_reduce_8.txt"]);
    const reasons = [...refusals].map(([file, text]) => [
      file,
      /names no hosts|sendrecv|alltoall,|one GPU|failed before/.exec(text)?.[0],
    ]);
    expect(Object.fromEntries(reasons)).toEqual({
      "aws-1.txt": "names no hosts",
      "aws-2.txt": "names no hosts",
      "aws-3.txt": "names no hosts",
      "coreweave-a100-alltoall_1.txt": "alltoall,",
      "coreweave-a100-alltoall_8.txt": "alltoall,",
      "coreweave-a100-sendrecv_4.txt": "sendrecv",
      "nccl_N2_G1_cnode2-001_cnode2-002.log": "alltoall,",
      "nccl_N2_G4_cnode2-001_cnode2-003.log": "alltoall,",
      "nccl_N2_G8_cnode2-001_cnode2-002.log": "alltoall,",
    });
  });

  it.each(LARGER)("those of the larger collection in %s", async (folder) => {
    const { taken, refusals } = await importAll(folder);
    const folderOf = (file: string) => /^(?:(.*)\/)?/.exec(file)?.[1] ?? "";
    const countByFolder = new Map<string, [number, number]>();
    for (const file of [...taken, ...refusals.keys()].sort()) {
      const [yes, no] = countByFolder.get(folderOf(file)) ?? [0, 0];
      countByFolder.set(folderOf(file), taken.includes(file) ? [yes + 1, no] : [yes, no + 1]);
    }
    // alltoall and sendrecv are refused, as are quotations without ranks and files that are no logs.
    expect(Object.fromEntries(countByFolder)).toEqual({
      "": [0, 1],
      alcf: [23, 11],
      "coreweave-a100-1host": [14, 12],
      docs: [0, 11],
      "pairwise-cluster00": [0, 2],
      "pairwise-cluster00/logs": [0, 12],
      vidur: [0, 4],
    });
  });
});

describe("fleet import of logs", () => {
  const cwd = mkdtempSync(join(tmpdir(), "orbweaver-import-logs-"));
  mkdirSync(join(cwd, "logs"));
  const put = (name: string, text: string) => {
    writeFileSync(join(cwd, "logs", name), text);
  };
  const pair = { a: [0, 1], b: [0, 1] };
  put("ab.log", ncclRunText({ op: "all_reduce", gpusByHost: pair, gbs: 40 }));
  put("bc.log", ncclRunText({ op: "all_reduce", gpusByHost: { b: [0], c: [0] }, gbs: 20 }));
  put("a.log", ncclRunText({ op: "all_reduce", gpusByHost: { a: [0, 1, 2, 3] }, gbs: 300 }));
  put("a2.log", ncclRunText({ op: "all_reduce", gpusByHost: { a: [0, 1] }, gbs: 200 }));
  put(
    "odd.log",
    ncclRunText({ op: "all_reduce", gpusByHost: pair, gbs: 1 }).replaceAll("H100", "Graphics"),
  );
  writeFileSync(join(cwd, "topo.txt"), "\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tNV4\t X \n");

  it("makes a whole cluster of the hosts that a log names", async () => {
    const { code, stdout, stderr } = await run(["fleet", "import", "--bandwidth", "logs/ab.log"], {
      cwd,
    });
    expect(code).toBe(0);
    expect(stdout).toBe(
      "clusters:\n  - name: imported\n    site: imported\n    jurisdiction: unknown\n    hosts:\n" +
        "      - name: a\n        gpus: 2\n        type: H100\n      - name: b\n        gpus: 2\n        type: H100\n" +
        "    bandwidth: logs/ab.log\n",
    );
    expect(stderr).toMatch(/--cluster and --jurisdiction/);
  });

  it("joins logs of one host and of several, and renames hosts in order of appearance", async () => {
    const logs = "logs/ab.log,logs/bc.log,logs/a.log";
    const words = ["fleet", "import", "--bandwidth", logs, "--name", "x,y,z"];
    const named = [...words, "--cluster", "k", "--jurisdiction", "EU"];
    const { code, stdout, stderr } = await run(named, { cwd });
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    const fleet = readBack(stdout, cwd);
    const [table] = fleet.interHost.values();
    expect(table?.hosts).toEqual(["k/x", "k/y", "k/z"]);
    expect(table?.sets.map(({ masks, gbs }) => [masks, gbs])).toEqual([
      [[3, 3, 0], [40]],
      [[0, 1, 1], [20]],
    ]);
    expect([...fleet.details].map(([id, { bandwidth }]) => [id, bandwidth?.gbsByMask[15]])).toEqual(
      [["k/x", 300]],
    );
  });

  it("joins topologies with the log over their hosts, from another folder", async () => {
    const words = ["--topology", "topo.txt,topo.txt", "--name", "a,b", "--type", "H100"];
    const { code } = await run(
      ["fleet", "import", ...words, "--bandwidth", "logs/ab.log", "-o", "logs/fleet.yaml"],
      { cwd },
    );
    expect(code).toBe(0);
    const checked = await run(["fleet", "check", "logs/fleet.yaml"], { cwd });
    expect(checked.stdout).toContain("fine; 1 cluster, 2 hosts, 4 GPUs");
  });

  it.each([
    ["no file at all", [], /nothing to import\. Give --topology, --bandwidth, --fabric or several/],
    ["a file that is not there", ["--bandwidth", "no.log"], /no\.log does not exist/],
    [
      "a device that nobody knows",
      ["--bandwidth", "logs/odd.log"],
      /logs\/odd\.log: a has "NVIDIA Graphics 80GB HBM3", .*Give --type/,
    ],
    [
      "a host in two logs",
      ["--bandwidth", "logs/a.log,logs/a2.log"],
      /logs\/a2\.log: host a is measured in logs\/a\.log too; put all runs of a host into one file/,
    ],
    [
      "too few names",
      ["--bandwidth", "logs/ab.log", "--name", "x"],
      /1 name for 2 hosts of the logs \(a, b\)/,
    ],
    ["a topology without a type", ["--topology", "topo.txt"], /Give --type/],
    [
      "other hosts than the topologies are of",
      [
        "--topology",
        "topo.txt",
        "--type",
        "H100",
        "--bandwidth",
        "logs/ab.log",
        "-o",
        "logs/f.yaml",
      ],
      /(^|\s)logs\/ab\.log: the cluster has no host "a"; .* in the order a, b/,
    ],
    [
      "a log of more GPUs than the topology shows",
      [
        "--topology",
        "topo.txt",
        "--type",
        "H100",
        "--bandwidth",
        "logs/a.log",
        "-o",
        "logs/f.yaml",
      ],
      /(^|\s)logs\/a\.log: line 1 measures GPU 3, the host has 2/,
    ],
  ])("refuses %s", async (_name, words, want) => {
    const { code, stdout, stderr } = await run(["fleet", "import", ...words], { cwd });
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toMatch(want);
    expect(existsSync(join(cwd, "logs", "f.yaml"))).toBe(false);
  });
});

it.each([
  ["NVIDIA H100 80GB HBM3", "H100"],
  ["NVIDIA H100 PCIe", "H100-PCIE"],
  ["NVIDIA A100-SXM4-40GB", "A100-40"],
  ["NVIDIA A100-SXM4-80GB", "A100-80"],
  ["Tesla V100-SXM2-32GB", "V100-32"],
  ["NVIDIA GB200", "GB200"],
  ["NVIDIA Graphics Device", undefined],
])("the device %s is the type %s", (device, want) => {
  expect(gpuTypeOfDevice(device)).toBe(want);
});
