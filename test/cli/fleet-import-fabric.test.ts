/** @file `fleet import --fabric`: hosts with racks, from the fabric alone or beside topologies; each result reads back. */

import { copyFileSync, mkdtempSync, writeFileSync } from "node:fs";
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
    copyFileSync(fixture("gb200.nvidia-smi-q.txt"), join(folder, "gb01.txt"));
    const { code, stdout } = await imported(
      ...["--fabric", `${join(folder, "gb01.txt")},${join(folder, "t.conf")}`],
      ...["--name", "gb01,gb02", "--gpus", "2", "--type", "GB200"],
    );
    expect(code).toBe(0);
    expect(parse(stdout)).toEqual([
      expect.objectContaining({ name: "gb01", rack: expect.stringMatching(/^nvl-7d1b.*-32766$/) }),
      { name: "gb02", gpus: 2, type: "GB200", rack: "leaf" },
    ]);
  });

  it("counts files of nvidia-smi -q alone against the names, wherever the switches stand", async () => {
    const folder = mkdtempSync(join(tmpdir(), "orbweaver-fabric-"));
    writeFileSync(join(folder, "t.conf"), "SwitchName=leaf Nodes=gb[01-03]\n");
    const gpus = fixture("gb200.nvidia-smi-q.txt");
    const { code, stdout } = await imported(
      ...["--fabric", `${join(folder, "t.conf")},${gpus},${gpus}`, "--name", "gb01,gb03"],
    );
    expect(code).toBe(0);
    const rack: unknown = expect.stringMatching(/^nvl-7d1b.*-32766$/);
    expect(parse(stdout)).toEqual([
      { name: "gb01", gpus: 2, type: "GB200", rack },
      { name: "gb03", gpus: 2, type: "GB200", rack },
    ]);
  });

  it("takes an address for a whole name", async () => {
    const folder = mkdtempSync(join(tmpdir(), "orbweaver-fabric-"));
    const file = join(folder, "t.conf");
    writeFileSync(file, "SwitchName=a Nodes=10.0.0.1\nSwitchName=b Nodes=10.0.0.2\n");
    const { code, stderr } = await imported(
      ...["--fabric", file, "--name", "10.0.0.3", "--gpus", "8", "--type", "H100"],
    );
    expect(code).toBe(2);
    expect(stderr).toMatch(/10\.0\.0\.3: not in .*t\.conf, which has 10\.0\.0\.1, 10\.0\.0\.2/);
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
      /^.*2 names for 1 file of nvidia-smi -q, and gb200\.nvidia-smi-q\.txt is called by none of them\. Give one name for each/,
    ],
    [
      "a file of a host that is not wanted, beside switches",
      ["--fabric", "gb200.nvidia-smi-q.txt,tree.topology.conf", "--name", "gpu001,gpu002"],
      /2 names for 1 file of nvidia-smi -q, and gb200\.nvidia-smi-q\.txt is called by none of them/,
    ],
    [
      "two files that are called by one host",
      ["--fabric", "gb200.nvidia-smi-q.txt,./gb200.nvidia-smi-q.txt"],
      /are both taken for host gb200\.nvidia-smi-q\. Give --name with one name for each file/,
    ],
  ])("refuses %s", async (_, args, want) => {
    const { code, stdout, stderr } = await imported(...args);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toMatch(want);
  });
});
