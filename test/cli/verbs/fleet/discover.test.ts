/** @file `orbweaver fleet discover` prints a host's part of a fleet file, and `up` without a file takes the machine's own GPUs. */

import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import path from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { machineDevices } from "../../../../agent/system/machine-devices.ts";
import type { CommandContext } from "../../../../cli/command/command-context.ts";
import { ownFleetFile } from "../../../../cli/up/own-fleet-file.ts";
import {
  migUuid,
  standInNvidiaSmi,
  type StandInGpu,
} from "../../../support/stand-in-nvidia-smi.ts";
import { run } from "../../run.ts";

const root = mkdtempSync(path.join(tmpdir(), "orbweaver-discover-"));
afterAll(() => {
  rmSync(root, { recursive: true, force: true });
});
let count = 0;
const H100 = { device: "NVIDIA H100 80GB HBM3" };

function machine(gpus?: readonly StandInGpu[]) {
  const folder = path.join(root, String((count += 1)));
  const bin = path.join(folder, "bin");
  mkdirSync(bin, { recursive: true });
  if (gpus !== undefined) standInNvidiaSmi(bin, { gpus });
  const outside = { cwd: folder, env: { PATH: bin } };
  return {
    folder,
    bin,
    discover: (...words: string[]) => run(["fleet", "discover", ...words], outside),
    check: (file: string) => run(["fleet", "check", file, "--json"], outside),
  };
}

describe("orbweaver fleet discover", () => {
  it("prints a part that a fleet file takes, with what else is to be known as comments", async () => {
    const own = machine([H100, H100]);
    const said = await own.discover("--host", "h1", "--topology", "h1.txt");
    expect(said).toMatchObject({ code: 0 });
    expect(said.stdout).toMatch(/^- name: h1\n {2}gpus: 2\n {2}type: H100\n/);
    expect(said.stdout).toContain(`cpus: ${availableParallelism()}\n`);
    expect(said.stdout).toContain("# GPU 0: NVIDIA H100 80GB HBM3, GPU-00000000-1111");
    expect(readFileSync(path.join(own.folder, "h1.txt"), "utf8")).toContain("NV4");
    const hosts = said.stdout.replaceAll(/^/gm, "      ");
    const cluster = "clusters:\n  - name: c\n    site: s\n    jurisdiction: EU\n    hosts:\n";
    writeFileSync(path.join(own.folder, "fleet.yaml"), cluster + hosts);
    expect(JSON.parse((await own.check("fleet.yaml")).stdout)).toMatchObject({
      isFine: true,
      gpus: 2,
      hostsWithTopology: 1,
    });
  });

  it("counts the instances of GPUs that MIG has divided, each with its id", async () => {
    const own = machine([
      { ...H100, instances: 7 },
      { ...H100, instances: 7 },
    ]);
    const said = await own.discover("--host", "h1");
    expect(said).toMatchObject({ code: 0 });
    expect(said.stdout).toMatch(/^- name: h1\n {2}gpus: 14\n {2}type: H100:1g\.10gb\n/);
    expect(said.stdout).toContain(`#   instance 6: 1g.10gb, ${migUuid(1, 6)}`);
    const hosts = said.stdout.replaceAll(/^/gm, "      ");
    const cluster = "clusters:\n  - name: c\n    site: s\n    jurisdiction: EU\n    hosts:\n";
    writeFileSync(path.join(own.folder, "fleet.yaml"), cluster + hosts);
    expect(JSON.parse((await own.check("fleet.yaml")).stdout)).toMatchObject({
      isFine: true,
      gpus: 14,
    });
    const half = machine([
      H100,
      { ...H100, instances: 3, profile: ["3g.40gb", "1g.10gb", "1g.10gb"] },
    ]);
    const refused = await half.discover();
    expect(refused).toMatchObject({ code: 2 });
    expect(refused.stderr).toContain("GPUs of 3 kinds");
    expect(refused.stderr).toContain("Give --type with one of H100, H100:3g.40gb, H100:1g.10gb;");
    for (const [type, gpus] of [
      ["H100", 1],
      ["h100:1g.10gb", 2],
    ] as const)
      expect((await half.discover("--type", type)).stdout).toMatch(
        new RegExp(`\n {2}gpus: ${gpus}\n {2}type: ${type.replace("h", "H")}\n`),
      );
  });

  it("answers with all that the machine shows as JSON", async () => {
    const said = await machine([H100]).discover("--json", "--host", "h1");
    expect(JSON.parse(said.stdout)).toMatchObject({
      host: "h1",
      source: "nvidia-smi",
      gpus: [{ type: "H100", uuid: "GPU-00000000-1111-2222-3333-444444444444", watts: 700 }],
    });
  });

  it("refuses GPUs of several kinds, and overwrites no topology", async () => {
    const mixed = await machine([H100, { device: "NVIDIA A100-SXM4-40GB" }]).discover();
    expect(mixed).toMatchObject({ code: 2 });
    expect(mixed.stderr).toContain("GPUs of 2 kinds");
    const own = machine([H100, H100]);
    writeFileSync(path.join(own.folder, "t.txt"), "");
    expect(await own.discover("--topology", "t.txt")).toMatchObject({ code: 2 });
  });
});

it("without a driver, GPUs are counted by PCI", async () => {
  const own = machine();
  const sys = path.join(own.folder, "sys");
  const pci = path.join(sys, "bus", "pci", "devices");
  for (const [busId, vendor, kind] of [
    ["0000:18:00.0", "0x10de", "0x030200"],
    ["0000:17:00.0", "0x10de", "0x068000"],
    ["0000:19:00.0", "0x8086", "0x030000"],
  ] as const) {
    const device = path.join(own.folder, "devices", busId);
    mkdirSync(device, { recursive: true });
    writeFileSync(path.join(device, "vendor"), `${vendor}\n`);
    writeFileSync(path.join(device, "class"), `${kind}\n`);
    mkdirSync(pci, { recursive: true });
    symlinkSync(device, path.join(pci, busId));
  }
  mkdirSync(path.join(sys, "class", "infiniband", "mlx5_0"), { recursive: true });
  expect(await machineDevices({ path: own.bin, sys })).toMatchObject({
    source: "pci",
    gpus: [{ busId: "0000:18:00.0" }],
    nics: ["mlx5_0"],
  });
});

describe("the fleet of `up` without a file", () => {
  const contextOf = (bin: string) =>
    // Nothing else of the context is used.
    ({
      io: { env: { PATH: bin, ORBWEAVER_NVML: "off" } },
      say: () => undefined,
    }) as unknown as CommandContext;

  it("is this machine with its GPUs, and stays as it was written", async () => {
    const own = machine([H100, H100]);
    const file = (await ownFleetFile(contextOf(own.bin), own.folder)) ?? "";
    expect(readFileSync(file, "utf8")).toContain("gpus: 2\n        type: H100\n");
    expect(readFileSync(file, "utf8")).not.toContain("simulated");
    expect(JSON.parse((await own.check(file)).stdout)).toMatchObject({ isFine: true, gpus: 2 });
    standInNvidiaSmi(own.bin, { gpus: [H100] });
    expect(await ownFleetFile(contextOf(own.bin), own.folder)).toBe(file);
    expect(readFileSync(file, "utf8")).toContain("gpus: 2\n");
  });

  it("is the simulated one on a machine without a driver", async () => {
    const own = machine();
    expect(await ownFleetFile(contextOf(own.bin), own.folder)).toBeUndefined();
  });
});
