/**
 * @file The GPUs of a machine with instances of MIG, or with GPUs of several types, as leases of a host hold them: ids, and the devices by which the driver
 * lets each be used. A host has one type, so the devices of that type come first; the others are in no lease, and behind every wall.
 *
 * Whoever uses an instance opens its GPU's device and two capabilities, those of its GPU instance and of its compute instance, which are devices of their own
 * below `/dev/nvidia-caps` (source: NVIDIA's MIG user guide, "Device Nodes and Capabilities"). The driver says their numbers in `/proc`.
 */

import { join } from "node:path";
import type { HostGpu } from "../containment/host-gpus.ts";
import { leasedDevices, type MachineGpu } from "../../domain/fleet/parse-device-query.ts";
import { textOf } from "./system-files.ts";

/** Whether the GPUs of the machine are not simply those of its host. */
export const isDivided = (gpus: readonly MachineGpu[]): boolean =>
  gpus.some(({ instances }) => instances.length > 0) ||
  new Set(gpus.map(({ device }) => device)).size > 1;

/**
 * `whole`: the GPUs as `gpuNodes` reads them; `type`: the host's. None where the driver does not say all of each instance: half a list would move the others'
 * indices.
 */
export function migNodes(
  gpus: readonly MachineGpu[],
  whole: readonly HostGpu[],
  { type, proc = "/proc" }: { readonly type: string; readonly proc?: string },
): readonly HostGpu[] {
  const major = /^ *(\d+) nvidia-caps$/m.exec(textOf(join(proc, "devices")))?.[1];
  const all = leasedDevices(gpus);
  const devices = [
    ...all.filter((each) => each.type === type),
    ...all.filter((each) => each.type !== type),
  ];
  const found = devices.flatMap(({ uuid, gpu, instance }, index): readonly HostGpu[] => {
    const parent = whole.find((each) => each.uuid === gpus[gpu]?.uuid);
    if (parent === undefined || uuid === undefined) return [];
    if (instance === undefined) return [{ ...parent, index, gpu }];
    const gpuInstance = `gi${instance.gpuInstance}`;
    const minors = [gpuInstance, join(gpuInstance, `ci${instance.computeInstance}`)].flatMap(
      (each) => capability(proc, parent.nodes[0] ?? "", each) ?? [],
    );
    if (major === undefined || minors.length < 2) return [];
    return [
      {
        ...parent,
        ...{ index, uuid, gpu },
        nodes: [...parent.nodes, ...minors.map((minor) => `/dev/nvidia-caps/nvidia-cap${minor}`)],
        devices: [...parent.devices, ...minors.map((minor) => `${major}:${minor}`)],
      },
    ];
  });
  return found.length === devices.length ? found : [];
}

/** The minor number of the capability to use it. */
function capability(proc: string, node: string, instance: string): string | undefined {
  const gpu = `gpu${node.replace(/^\D+/, "")}`;
  const file = join(proc, "driver", "nvidia", "capabilities", gpu, "mig", instance, "access");
  return /^DeviceFileMinor:\s*(\d+)$/m.exec(textOf(file))?.[1];
}
