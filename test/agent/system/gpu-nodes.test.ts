/** @file The GPUs that the driver shows in `/proc`, from a stand-in for it. */

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, it } from "vitest";
import { gpuNodes, namedGpus } from "../../../agent/system/gpu-nodes.ts";
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

const PAIR = { "0000:65:00.0": saying(B, "0"), "0000:18:00.0": saying(A, "2") };

it("GPUs are in PCI order, with their nodes and the numbers of these", () => {
  const proc = driver(PAIR);
  expect(gpuNodes({ proc, sys: folder() })).toEqual([
    { index: 0, uuid: A, busId: "0:18:00", nodes: ["/dev/nvidia2"], devices: ["195:2"] },
    { index: 1, uuid: B, busId: "0:65:00", nodes: ["/dev/nvidia0"], devices: ["195:0"] },
  ]);
});

it("the driver says its major number, and the display devices of a GPU open it, too", () => {
  const [proc, sys] = [driver(PAIR), folder()];
  writeFileSync(
    join(proc, "devices"),
    "Character devices:\n  1 mem\n195 nvidia-caps\n200 nvidia\n",
  );
  const drm = join(sys, "bus", "pci", "devices", "0000:65:00.0", "drm");
  for (const [name, numbers] of [
    ["card1", "226:1\n"],
    ["renderD129", "226:129\n"],
  ] as const) {
    mkdirSync(join(drm, name), { recursive: true });
    writeFileSync(join(drm, name, "dev"), numbers);
  }
  mkdirSync(join(drm, "unknown"));
  expect(gpuNodes({ proc, sys }).map(({ devices }) => devices)).toEqual([
    ["200:2"],
    ["200:0", "226:1", "226:129"],
  ]);
});

it("half a list is none: the others' indices would be wrong", () => {
  const proc = driver({
    "0000:18:00.0": "Model: \t\t Unknown\n",
    "0000:65:00.0": saying(B, "0"),
  });
  expect(gpuNodes({ proc })).toEqual([]);
  expect(gpuNodes({ proc: folder() })).toEqual([]);
  expect(
    gpuNodes({
      proc: driver({ "0000:18:00.0": saying("GPU-????????-????-????-????-????????????", "0") }),
    }),
  ).toEqual([]);
});

it("GPUs have the ids of the driver's answer where its files say none, and no devices", () => {
  const gpu = { device: "NVIDIA H100 80GB HBM3", instances: [] };
  const first = { ...gpu, uuid: A, busId: "00000000:18:00.0" };
  expect(namedGpus([first, { ...gpu, uuid: B }])).toEqual([
    { index: 0, uuid: A, busId: "0:18:00", nodes: [], devices: [] },
    { index: 1, uuid: B, nodes: [], devices: [] },
  ]);
  expect(namedGpus([first, gpu])).toEqual([]);
});
