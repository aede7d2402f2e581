/** @file The containers of launches on an agent's machine, with a wall around the GPUs of each where the machine shows its GPUs and can refuse them. */

import {
  containmentWord,
  type Containment,
  type ContainerKind,
} from "../agent/containment/container.ts";
import { findContainment } from "../agent/system/find-containment.ts";
import { withGpuWall } from "../agent/system/gpu-wall.ts";
import type { ServedHost } from "./host-resources.ts";

export interface ContainmentSetup {
  readonly hosts: readonly Pick<ServedHost, "gpus">[];
  /** The kinds to try, the best first; by default all. */
  readonly containers?: readonly ContainerKind[];
}

/** `native`: the native supervisor, where there is one. `word`: as the agent says it of its hosts. */
export function hostContainment(
  { hosts, containers }: ContainmentSetup,
  native: string | undefined,
): { readonly containment: Containment; readonly word: string } {
  const found = findContainment(containers);
  const hasIds = hosts.every(({ gpus = [] }) => gpus.length > 0);
  const hasDevices = hosts.every(({ gpus = [] }) => {
    const shown = gpus.filter(({ isGone }) => isGone !== true);
    return shown.length > 0 && shown.every(({ devices }) => devices.length > 0);
  });
  const containment = hasIds && hasDevices ? withGpuWall(found, { native }) : found;
  return { containment, word: containmentWord(containment, hasIds) };
}
