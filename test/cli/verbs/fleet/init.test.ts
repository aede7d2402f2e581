/** @file `orbweaver init` writes a fleet file for this machine, whatever its driver says, and overwrites nothing. */

import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  writeFileSync,
} from "node:fs";
import { hostname, tmpdir } from "node:os";
import path from "node:path";
import { describe, expect, it } from "vitest";
import { run, type Said } from "../../run.ts";

const MATRIX = "\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tNV4\t X \n";

interface Machine {
  readonly folder: string;
  readonly init: (...words: string[]) => Promise<Said>;
  readonly text: (file?: string) => string;
  readonly check: () => Promise<Said>;
}

/** `listed`: what a driver answers; `undefined` for a machine without one. */
function machine(listed?: string, { topology = MATRIX, status = 0 } = {}): Machine {
  const folder = mkdtempSync(path.join(tmpdir(), "orbweaver-init-"));
  const bin = path.join(folder, "bin");
  mkdirSync(bin);
  if (listed !== undefined) {
    const smi = path.join(bin, "nvidia-smi");
    const say = (text: string): string => `/bin/cat <<'EOF'\n${text}\nEOF`;
    const topo = topology === "" ? "exit 3" : say(topology);
    writeFileSync(
      smi,
      `#!/bin/sh\nif [ "$1" = topo ]; then\n${topo}\nelse\n${say(listed)}\nexit ${status}\nfi\n`,
    );
    chmodSync(smi, 0o755);
  }
  const outside = { cwd: folder, env: { PATH: bin } };
  return {
    folder,
    init: (...words) => run(["init", ...words], outside),
    text: (file = "fleet.yaml") => readFileSync(path.join(folder, file), "utf8"),
    check: () => run(["fleet", "check", "fleet.yaml", "--json"], outside),
  };
}

describe("orbweaver init", () => {
  it("makes GPUs up where there is no driver, and says so", async () => {
    const own = machine();
    const said = await own.init("--site", "lyon", "--jurisdiction", "EU");
    expect(said).toMatchObject({ code: 0 });
    expect(said.stdout).toContain("no NVIDIA driver here, so 8 made-up GPUs");
    expect(own.text()).toMatch(/jurisdiction: EU .*\n\s+simulated: true/);
    expect(JSON.parse((await own.check()).stdout)).toMatchObject({ isFine: true, gpus: 8 });
  });

  it.each([
    ["NVIDIA H100 80GB HBM3, 81559, 700.00", "H100"],
    ["NVIDIA A100-SXM4-40GB, 40960, 400.00", "A100-40"],
    ["NVIDIA TITAN Q, 24576, 280.5", "TITAN-Q"],
    ["NVIDIA GH200 480GB, [N/A], [N/A]", "GH200"],
  ])("describes two of %j as %s, with their topology", async (device, type) => {
    const own = machine(`${device}\n${device}`);
    const said = await own.init("--json");
    expect(JSON.parse(said.stdout)).toEqual({
      files: ["fleet.yaml", "topology.txt"],
      isSimulated: false,
    });
    expect(own.text()).toContain(`gpus: 2\n        type: ${type}\n`);
    expect(own.text()).toContain(`name: ${hostname()} `);
    expect(own.text("topology.txt")).toContain("NV4");
    expect(JSON.parse((await own.check()).stdout)).toMatchObject({
      isFine: true,
      gpus: 2,
      hostsWithTopology: 1,
    });
  });

  it("leaves the topology out where the driver has none", async () => {
    const own = machine("Tesla T4, 15360, 70.00", { topology: "" });
    expect(JSON.parse((await own.init("--json")).stdout)).toMatchObject({ files: ["fleet.yaml"] });
    expect(JSON.parse((await own.check()).stdout)).toMatchObject({ hostsWithTopology: 0 });
  });

  it("leaves a topology out that nobody can read, and says so", async () => {
    const own = machine("Tesla T4, 15360, 70", { topology: "oops" });
    const said = await own.init("--json");
    expect(JSON.parse(said.stdout)).toMatchObject({ files: ["fleet.yaml"] });
    expect(said.stderr).toContain("without the topology, which cannot be read");
    expect(JSON.parse((await own.check()).stdout)).toMatchObject({ isFine: true, gpus: 1 });
  });

  it.each([
    ["GPUs of two kinds", "Tesla T4, 15360, 70\nNVIDIA A10, 23028, 150", {}, "GPUs of 2 kinds"],
    ["a driver that fails", "NVML: driver mismatch", { status: 18 }, "driver mismatch"],
    ["a GPU of unknown power", "NVIDIA TITAN Q, 24576, [N/A]", {}, "Give --type"],
  ])("refuses %s and writes nothing", async (_what, listed, more, want) => {
    const own = machine(listed, more);
    const said = await own.init();
    expect(said.code).toBe(2);
    expect(said.stderr).toContain(want);
    expect(existsSync(path.join(own.folder, "fleet.yaml"))).toBe(false);
    expect(existsSync(path.join(own.folder, "topology.txt"))).toBe(false);
  });

  it("overwrites what is there only with --force", async () => {
    const own = machine("Tesla T4, 15360, 70\nTesla T4, 15360, 70");
    writeFileSync(path.join(own.folder, "topology.txt"), "mine");
    const said = await own.init();
    expect(said).toMatchObject({ code: 2 });
    expect(said.stderr).toContain("topology.txt is there already, and nothing was written");
    expect(existsSync(path.join(own.folder, "fleet.yaml"))).toBe(false);
    expect(own.text("topology.txt")).toBe("mine");
    expect(await own.init("--force")).toMatchObject({ code: 0 });
    expect(own.text("topology.txt")).toContain("NV4");
  });

  it("refuses a name that a fleet file does not take", async () => {
    const own = machine();
    expect((await own.init("--site", "x y")).stderr).toContain('"x y" is no name for a site');
    expect(existsSync(path.join(own.folder, "fleet.yaml"))).toBe(false);
  });
});
