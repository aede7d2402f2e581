/**
 * @file Finds by which means this machine can refuse a launch the devices of other GPUs, by trying each on a harmless device.
 *
 * Version 1 has a file for it, `devices.deny`. Version 2 has a filter, which the native supervisor loads. A hierarchy of version 1 that allows by
 * list, as in a container of Docker's, is left out: a device that its list allows by a pattern cannot be taken from it.
 * Cost: a few starts of small programs, once in an agent's life.
 */

import { spawnSync } from "node:child_process";
import { join } from "node:path";
import type { Containment, GroupContainment } from "../containment/container.ts";
import { withExecStep } from "./exec-step.ts";
import { ownBase, trialGroup } from "./find-containment.ts";
import { nodeGroups } from "./node-groups.ts";
import { textOf } from "./system-files.ts";

const TRIAL_MS = 5_000;
/** `/dev/full`, which no trial needs. */
const HARMLESS = "1:7";
const TRIAL =
  "[ -c /dev/full ] && [ -c /dev/null ] && ! true 2>/dev/null < /dev/full && true < /dev/null";
const ALLOWS_ALL = /^a \*:\* rwm$/;

export const WALLS = ["cgroup1", "cgroup2"] as const;

export interface WallMeans {
  /** The native supervisor, where there is one. */
  readonly native: string | undefined;
  /** Which to try, the best first. */
  readonly walls?: readonly (typeof WALLS)[number][];
}

/** The same containment, with its means to refuse devices where there is one. */
export function withGpuWall(
  containment: Containment,
  { native, walls = WALLS }: WallMeans,
): Containment {
  if (!("base" in containment)) return containment;
  for (const wall of walls) {
    const devices = wall === "cgroup1" ? version1() : version2(containment, native);
    if (devices !== undefined && isRefused(devices)) return { ...containment, devices };
  }
  return containment;
}

type DevicePlace = NonNullable<GroupContainment["devices"]>;

function version1(): DevicePlace | undefined {
  const base = ownBase({ type: "cgroup", controller: "devices" });
  const list = textOf(join(base ?? "", "devices.list"));
  return base !== undefined && ALLOWS_ALL.test(list) ? { base } : undefined;
}

/** An agent that can write to version 2 has its groups there. */
const version2 = (
  { kind, base }: GroupContainment,
  native: string | undefined,
): DevicePlace | undefined =>
  kind === "cgroup2" && native !== undefined ? { base, filter: native } : undefined;

function isRefused({ base, filter }: DevicePlace): boolean {
  const group = trialGroup(base);
  try {
    nodeGroups.make(group);
    nodeGroups.denyDevices(group, {
      denied: [HARMLESS],
      ...(filter !== undefined && { filter }),
    });
    const [program = "", ...words] = withExecStep([group], ["/bin/sh", "-c", TRIAL]);
    return spawnSync(program, words, { stdio: "ignore", timeout: TRIAL_MS }).status === 0;
  } catch {
    return false;
  } finally {
    nodeGroups.remove(group);
  }
}
