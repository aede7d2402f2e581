/**
 * @file Jobs that open GPUs of other leases, with each means by which this machine can refuse that. Device nodes with the numbers of harmless devices stand in
 * for GPUs. A means that this machine or user lacks is skipped by name.
 */

import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { readContainer, type Containment } from "../../agent/containment/container.ts";
import type { HostGpu } from "../../agent/containment/host-gpus.ts";
import { findContainment } from "../../agent/system/find-containment.ts";
import { WALLS, withGpuWall } from "../../agent/system/gpu-wall.ts";
import { nodeSystem } from "../../agent/system/node-system.ts";
import { token } from "../../domain/values/ids.ts";
import { builtNative, folder, HOST, orderOf, outputOf, removeFolders } from "./fixture.ts";
import { testAgent } from "./fixture.ts";

afterEach(removeFolders);

/** Of `/dev/zero` and `/dev/full`, from which a byte can be read. */
const NUMBERS = ["1:5", "1:7"] as const;
let gpus: readonly HostGpu[] = [];
let nodes = "";

const found = WALLS.map((wall) => ({
  wall,
  containment: withGpuWall(findContainment(), { native: builtNative(), walls: [wall] }),
}));
const hasWall = (containment: Containment): boolean =>
  "devices" in containment && containment.devices !== undefined;
const on = (mask: number) => ({ gang: [{ host: HOST, mask, address: "10.0.0.1" }] });

/** Says of each node whether a byte can be read from it. */
const tryAll = (): string =>
  `for each in 0 1; do head -c1 ${nodes}/nvidia$each >/dev/null 2>&1 && echo opened $each || LC_ALL=C head -c1 ${nodes}/nvidia$each 2>&1 >/dev/null | sed 's/.*: //'; done`;
const REFUSED = "Operation not permitted";

for (const { wall, containment } of found) {
  describe.skipIf(!hasWall(containment))(`the GPU wall of ${wall} (needs root)`, () => {
    beforeEach(() => {
      nodes = folder();
      gpus = NUMBERS.map((numbers, index) => {
        const node = join(nodes, `nvidia${index}`);
        execFileSync("mknod", ["-m", "666", node, "c", ...numbers.split(":")]);
        return { index, uuid: `GPU-${index}`, nodes: [node], devices: [numbers] };
      });
    });

    it("lets each of two leases open its own GPU alone", async () => {
      const agent = testAgent({ containment, gpus });
      const first = orderOf(tryAll(), on(0b01));
      const second = orderOf(tryAll(), { ...on(0b10), token: token(6) });
      await Promise.all([agent.runs.run(first), agent.runs.run(second)]);
      expect(await outputOf(agent, first)).toBe(`opened 0\n${REFUSED}\n`);
      expect(await outputOf(agent, second)).toBe(`${REFUSED}\nopened 1\n`);
    });

    it("holds for what leaves its session and makes a node of its own, and refuses nothing else", async () => {
      const agent = testAgent({ containment, gpus });
      const order = orderOf(
        [
          `env -i PATH="$PATH" setsid sh -c '${tryAll().replaceAll("'", `'\\''`)}'`,
          `mknod ${nodes}/other c 1 7 2>/dev/null && head -c1 ${nodes}/other && echo opened by a node of its own`,
          ": < /dev/null && : < /dev/urandom && : <> /dev/ptmx && echo devices and terminals",
        ].join("\n"),
        on(0b01),
      );
      await agent.runs.run(order);
      expect(await outputOf(agent, order)).toBe(`opened 0\n${REFUSED}\ndevices and terminals\n`);
    });

    it("divides instances of MIG, which share their GPU's device", async () => {
      const whole = join(nodes, "nvidia2");
      execFileSync("mknod", ["-m", "666", whole, "c", "1", "9"]);
      const instances = gpus.map((each) => ({
        ...each,
        gpu: 0,
        devices: [...each.devices, "1:9"],
      }));
      const agent = testAgent({ containment, gpus: instances });
      const order = orderOf(
        `${tryAll()}; head -c1 ${whole} >/dev/null && echo and their GPU`,
        on(1),
      );
      await agent.runs.run(order);
      expect(await outputOf(agent, order)).toBe(`opened 0\n${REFUSED}\nand their GPU\n`);
    });

    it("holds for the tasks of an array, which the shim in Node starts", async () => {
      const agent = testAgent({ containment, gpus });
      const seen = join(folder(), "seen");
      const order = orderOf(`{ ${tryAll()}; } > ${seen}`, {
        ...on(0b10),
        taskBatch: { seq: 1, tasks: [0], slots: 1, gpusPerTask: 1, count: 1 },
      });
      expect(await agent.runs.run(order)).toMatchObject({ tasks: [{ end: "completed" }] });
      expect(execFileSync("cat", [seen], { encoding: "utf8" })).toBe(`${REFUSED}\nopened 1\n`);
    });

    it("is gone with its launch, and is not made for a lease of the whole host", async () => {
      const agent = testAgent({ containment, gpus });
      const order = orderOf("true", on(0b01));
      await agent.runs.run(order);
      const { devices } = readContainer(nodeSystem.files, agent.filesOf(order)) as {
        readonly devices?: { readonly group: string; readonly denied: readonly string[] };
      };
      expect(devices?.denied).toEqual(["1:7"]);
      expect(existsSync(devices?.group ?? "/")).toBe(false);
      const whole = orderOf(tryAll(), { ...on(0b11), token: token(6) });
      await agent.runs.run(whole);
      expect(await outputOf(agent, whole)).toBe("opened 0\nopened 1\n");
      expect(readContainer(nodeSystem.files, agent.filesOf(whole))).not.toHaveProperty("devices");
    });

    it("starts nothing where it cannot be raised", async () => {
      const devices = { base: folder(), filter: "/bin/false" };
      const agent = testAgent({ containment: { ...containment, devices } as Containment, gpus });
      await expect(agent.runs.run(orderOf("true", on(0b01)))).rejects.toMatchObject({
        type: "HOST_REFUSED",
      });
    });
  });
}

it("without groups there is no wall", () => {
  expect(withGpuWall({ kind: "marks" }, { native: builtNative() })).toEqual({ kind: "marks" });
});
