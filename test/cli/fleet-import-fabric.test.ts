/** @file `fleet import --fabric`: hosts with racks, from the fabric alone or beside topologies; each result reads back. */

import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { run } from "./run.ts";

const FABRIC = fileURLToPath(new URL("../fixtures/fabric/", import.meta.url));
const fixture = (name: string): string => join(FABRIC, name);
const imported = async (...args: string[]) => run(["fleet", "import", ...args], { cwd: FABRIC });

describe("fleet import --fabric", () => {
  it("makes the hosts that it names, with their racks", async () => {
    const { code, stdout } = await imported(
      ...[
        "--fabric",
        "tree.topology.conf",
        "--name",
        "gpu[001-003]",
        "--type",
        "H100",
        "--gpus",
        "8",
      ],
    );
    expect(code).toBe(0);
    expect(parse(stdout)).toEqual([
      { name: "gpu001", gpus: 8, type: "H100", rack: "leaf1" },
      { name: "gpu002", gpus: 8, type: "H100", rack: "leaf1" },
      { name: "gpu003", gpus: 8, type: "H100", rack: "leaf2" },
    ]);
  });

  it("takes GPUs, type and NVLink domain from nvidia-smi -q, before the switches", async () => {
    const folder = mkdtempSync(join(tmpdir(), "orbweaver-fabric-"));
    writeFileSync(join(folder, "t.conf"), "SwitchName=leaf Nodes=gb01,gb02\n");
    const { code, stdout } = await imported(
      ...["--fabric", `${fixture("gb200.nvidia-smi-q.txt")},${join(folder, "t.conf")}`],
      ...["--name", "gb01,gb02", "--gpus", "2", "--type", "GB200"],
    );
    expect(code).toBe(0);
    expect(parse(stdout)).toEqual([
      expect.objectContaining({ name: "gb01", rack: expect.stringMatching(/^nvl-7d1b.*-32766$/) }),
      { name: "gb02", gpus: 2, type: "GB200", rack: "leaf" },
    ]);
  });

  it("adds racks to hosts with topologies, NCCL's XML among them", async () => {
    const { code, stdout } = await imported(
      ...["--topology", "nvswitch-2gpu.nccl.xml", "--name", "gpu-003.example", "--type", "H100"],
      ...["--fabric", "rails.ibnetdiscover.txt", "--cluster", "eu-1", "--jurisdiction", "EU"],
    );
    expect(code).toBe(0);
    expect(parse(stdout)).toMatchObject({
      clusters: [
        { name: "eu-1", hosts: [{ name: "gpu-003.example", gpus: 2, rack: "su2-leaf-r1" }] },
      ],
    });
  });

  it.each<[string, readonly string[], RegExp]>([
    [
      "a host that the fabric does not have",
      ["--topology", "nvswitch-2gpu.nccl.xml", "--type", "H100", "--fabric", "tree.topology.conf"],
      /nvswitch-2gpu\.nccl: not in tree\.topology\.conf, which has gpu001.*Give --name/,
    ],
    [
      "no count of GPUs",
      ["--fabric", "tree.topology.conf", "--type", "H100"],
      /how many GPUs gpu001 has\. Give --gpus/,
    ],
    [
      "no type",
      ["--fabric", "tree.topology.conf", "--gpus", "8"],
      /which GPUs gpu001 has\. Give --type/,
    ],
    [
      "a count beside a topology",
      ["--topology", "nvswitch-2gpu.nccl.xml", "--type", "H100", "--gpus", "2"],
      /--gpus is for --fabric alone/,
    ],
    [
      "a file that is not there",
      ["--fabric", "none.conf", "--type", "H100"],
      /none\.conf does not exist\. Name a file about the fabric/,
    ],
    [
      "names that are too few",
      ["--fabric", "gb200.nvidia-smi-q.txt", "--name", "a,b"],
      /2 names for 1 host/,
    ],
  ])("refuses %s", async (_, args, want) => {
    const { code, stdout, stderr } = await imported(...args);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toMatch(want);
  });
});
