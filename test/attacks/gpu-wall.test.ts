/**
 * @file Two jobs on a live fleet of root that open each other's GPU. The machine's driver is a stand-in, mounted for the fleet's processes alone: it names
 * `/dev/zero` and `/dev/full` as GPUs. Skipped by name where there is no root, or nothing that refuses devices.
 */

import { readFileSync, writeFileSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { findContainment } from "../../agent/system/find-containment.ts";
import { withGpuWall } from "../../agent/system/gpu-wall.ts";
import { builtNative, eventually } from "../agent/fixture.ts";
import { cliOf } from "../support/own-cli.ts";
import { removeFolder } from "../support/remove-folder.ts";
import { canStandInDriver, standInDriver } from "../support/stand-in-driver.ts";

const FLEET = "walled";
const FLEET_FILE = `name: ${FLEET}
clusters:
  - name: lab
    site: here
    jurisdiction: EU
    fabric: { bandwidth: 100 Gbps }
    hosts:
      - { name: "${hostname()}", gpus: 2, type: H100 }
`;
const GPUS = [
  { busId: "0000:18:00.0", uuid: "GPU-0a1b2c3d-0123-4567-89ab-0123456789ab", device: "zero" },
  { busId: "0000:65:00.0", uuid: "GPU-9f8e7d6c-0123-4567-89ab-0123456789ab", device: "full" },
] as const;
const MINORS = { zero: 5, full: 7 };
let dir = "";
const cli = cliOf(FLEET, () => join(dir, "state"));

const canRun = (): boolean => {
  const containment = withGpuWall(findContainment(), { native: builtNative() });
  const hasWall = "devices" in containment && containment.devices !== undefined;
  return hasWall && canStandInDriver();
};
const seenBy = (name: string): readonly string[] => {
  try {
    return readFileSync(join(dir, name), "utf8").split("\n").filter(Boolean);
  } catch {
    return [];
  }
};

describe.runIf(canRun())("the GPU wall on a live fleet (needs root)", () => {
  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), "orbweaver-walled-"));
    const { before } = standInDriver(
      dir,
      GPUS.map((gpu) => ({ ...gpu, minor: MINORS[gpu.device] })),
    );
    writeFileSync(join(dir, "fleet.yaml"), FLEET_FILE);
    const up = cliOf(FLEET, () => join(dir, "state"), before);
    await up("up", "--always-on", join(dir, "fleet.yaml"));
  });
  afterAll(async () => {
    await cli("down", "--stop-jobs").catch(() => undefined);
    removeFolder(dir);
  });

  it("each job opens its own GPU, is refused the other's, and is told of its own by id", async () => {
    const names = ["first", "second"];
    const ends = names.map((name) => {
      const attack = [
        `echo "$CUDA_VISIBLE_DEVICES" > ${dir}/${name}.new`,
        `for each in zero full; do if head -c1 /dev/$each > /dev/null 2>&1; then echo $each; fi; done >> ${dir}/${name}.new`,
        `mv ${dir}/${name}.new ${dir}/${name}`,
        `until [ -e ${dir}/go ]; do sleep 0.1; done`,
      ].join("\n");
      return cli("submit", "--wait", "--key", name, "--gpus", "1", "--", "sh", "-c", attack);
    });
    await eventually(() => names.every((name) => seenBy(name).length > 0));
    writeFileSync(join(dir, "go"), "");
    await Promise.all(ends);
    expect(names.map(seenBy).sort()).toEqual(GPUS.map(({ uuid, device }) => [uuid, device]));
  });

  it("`fleet show` says that the wall stands", async () => {
    expect(await cli("fleet", "show")).toMatch(/limited: .*GPUs to the lease's\n/);
  });
});
