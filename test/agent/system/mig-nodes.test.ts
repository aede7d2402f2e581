/** @file Instances of MIG as leases hold them: from the driver's answers and its stand-in in `/proc`. */

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import {
  foreignDevices,
  hostGpusOn,
  visibleDevices,
} from "../../../agent/containment/host-gpus.ts";
import { gpuNodes } from "../../../agent/system/gpu-nodes.ts";
import { machineDevices } from "../../../agent/system/machine-devices.ts";
import { isDivided, migNodes } from "../../../agent/system/mig-nodes.ts";
import { migUuid, standInNvidiaSmi } from "../../support/stand-in-nvidia-smi.ts";
import { folder, removeFolders } from "../fixture.ts";

afterEach(removeFolders);

const DEVICE = "NVIDIA H100 80GB HBM3";

/** Two GPUs with two instances each, whose capabilities are numbered from 12 on; `isSaid`: of which instances the driver says them. */
async function machine({
  gpus = 2,
  isSaid = (_instance: number): boolean => true,
  profile = ["1g.10gb", "1g.10gb"],
  type = "H100:1g.10gb",
} = {}) {
  const [proc, bin] = [folder(), join(folder(), "bin")];
  standInNvidiaSmi(bin, {
    gpus: Array.from({ length: gpus }, () => ({ device: DEVICE, instances: 2, profile })),
  });
  const write = (path: readonly string[], text: string): void => {
    const file = join(proc, ...path);
    mkdirSync(join(file, ".."), { recursive: true });
    writeFileSync(file, text);
  };
  write(["devices"], "Character devices:\n195 nvidia\n235 nvidia-caps\n");
  for (let gpu = 0; gpu < gpus; gpu += 1) {
    write(
      ["driver", "nvidia", "gpus", `0000:${gpu + 1}8:00.0`, "information"],
      `GPU UUID: \t GPU-0000000${gpu}-1111-2222-3333-444444444444\nDevice Minor: \t ${5 - gpu}\n`,
    );
    for (const instance of [0, 1].filter(isSaid)) {
      const minor = 12 + gpu * 4 + instance * 2;
      const caps = [
        "driver",
        "nvidia",
        "capabilities",
        `gpu${5 - gpu}`,
        "mig",
        `gi${7 + instance}`,
      ];
      const say = (each: number) => `DeviceFileMinor: ${each}\nDeviceFileMode: 256\n`;
      write([...caps, "access"], say(minor));
      write([...caps, "ci0", "access"], say(minor + 1));
    }
  }
  const shown = await machineDevices({ path: bin });
  expect(isDivided(shown.gpus)).toBe(true);
  return migNodes(shown.gpus, gpuNodes({ proc, sys: folder() }), { proc, type });
}

describe("instances of MIG", () => {
  it("have ids, their GPU's device, and capabilities of their own", async () => {
    expect(await machine()).toEqual(
      [
        { gpu: 0, at: 0, minor: 5, caps: [12, 13] },
        { gpu: 0, at: 1, minor: 5, caps: [14, 15] },
        { gpu: 1, at: 0, minor: 4, caps: [16, 17] },
        { gpu: 1, at: 1, minor: 4, caps: [18, 19] },
      ].map(({ gpu, at, minor, caps }, index) => ({
        index,
        gpu,
        busId: ["0:18:00", "0:28:00"][gpu],
        uuid: migUuid(gpu, at),
        nodes: [`/dev/nvidia${minor}`, ...caps.map((cap) => `/dev/nvidia-caps/nvidia-cap${cap}`)],
        devices: [`195:${minor}`, ...caps.map((cap) => `235:${cap}`)],
      })),
    );
  });

  it("are none where the driver says half of them", async () => {
    expect(await machine({ isSaid: (instance) => instance === 0 })).toEqual([]);
  });

  it("are named by id, and walled off each from the others, the GPU's device left to those on it", async () => {
    const gpus = await machine();
    expect(visibleDevices([1, 2], gpus)).toBe(`${migUuid(0, 1)},${migUuid(1, 0)}`);
    expect(foreignDevices(gpus, [1])).toEqual([
      ...["235:12", "235:13"],
      ...["195:4", "235:16", "235:17", "235:18", "235:19"],
    ]);
    expect(foreignDevices(gpus, [0, 1, 2, 3])).toEqual([]);
  });

  it("of several profiles come in the order of the host's type, and the others are behind its wall", async () => {
    const profile = ["3g.40gb", "1g.10gb"];
    const small = await machine({ profile });
    expect(visibleDevices([0, 1], small)).toBe(`${migUuid(0, 1)},${migUuid(1, 1)}`);
    expect(foreignDevices(small, [0])).toEqual([
      ...["195:4", "235:18", "235:19", "235:12", "235:13", "235:16", "235:17"],
    ]);
    expect(hostGpusOn(small, [1])).toEqual([1, 3]);
    const large = await machine({ profile, type: "H100:3g.40gb" });
    expect(visibleDevices([0, 1], large)).toBe(`${migUuid(0, 0)},${migUuid(1, 0)}`);
  });

  it("all leave a GPU that is broken", async () => {
    expect(hostGpusOn(await machine(), [1])).toEqual([2, 3]);
    expect(hostGpusOn(gpuNodes({ proc: folder() }), [1])).toEqual([1]);
    expect(hostGpusOn(undefined, [1])).toEqual([1]);
  });
});
