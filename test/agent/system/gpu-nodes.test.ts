/** @file The GPUs that the driver shows in `/proc`, from a stand-in for it. */

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, it } from "vitest";
import { gpuNodes } from "../../../agent/system/gpu-nodes.ts";
import { folder, removeFolders } from "../fixture.ts";

afterEach(removeFolders);

function driver(gpus: Readonly<Record<string, string>>): string {
  const proc = folder();
  for (const [busId, text] of Object.entries(gpus)) {
    const dir = join(proc, "driver", "nvidia", "gpus", busId);
    mkdirSync(dir, { recursive: true });
    writeFileSync(join(dir, "information"), text);
  }
  return proc;
}
const A = "GPU-0a1b2c3d-0123-4567-89ab-0123456789ab";
const B = "GPU-9f8e7d6c-0123-4567-89ab-0123456789ab";
const saying = (uuid: string, minor: string): string =>
  `Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 83\nGPU UUID: \t ${uuid}\nDevice Minor: \t ${minor}\n`;

it("GPUs are in PCI order, with the numbers of their nodes", () => {
  const proc = driver({
    "0000:65:00.0": saying(B, "0"),
    "0000:18:00.0": saying(A, "2"),
  });
  expect(gpuNodes(proc)).toEqual([
    { index: 0, uuid: A, node: "/dev/nvidia2" },
    { index: 1, uuid: B, node: "/dev/nvidia0" },
  ]);
});

it("half a list is none: the others' indices would be wrong", () => {
  const proc = driver({
    "0000:18:00.0": "Model: \t\t Unknown\n",
    "0000:65:00.0": saying(B, "0"),
  });
  expect(gpuNodes(proc)).toEqual([]);
  expect(gpuNodes(folder())).toEqual([]);
  expect(
    gpuNodes(driver({ "0000:18:00.0": saying("GPU-????????-????-????-????-????????????", "0") })),
  ).toEqual([]);
});
