/**
 * @file The GPUs of this machine as its NVIDIA driver shows them in `/proc`: ids, device nodes and their numbers, in PCI order, as leases count.
 *
 * The number of a node need not be the index, so it is read and never guessed. A node may be made when it is first needed, so its numbers come from the
 * driver too; those of the GPU's display devices, which open it as well, from `/sys`.
 */

import { join } from "node:path";
import type { HostGpu } from "../containment/host-gpus.ts";
import type { MachineGpu } from "../../domain/fleet/parse-device-query.ts";
import { plainBusId } from "../../domain/fleet/xid.ts";
import { namesIn, textOf } from "./system-files.ts";

/** The driver's, in every Linux. */
const MAJOR = "195";

/** None where there is no driver, or one that says less. */
export function gpuNodes({ proc = "/proc", sys = "/sys" } = {}): readonly HostGpu[] {
  const folder = join(proc, "driver", "nvidia", "gpus");
  const busIds = namesIn(folder);
  const major = /^ *(\d+) nvidia(?:-frontend)?$/m.exec(textOf(join(proc, "devices")))?.[1] ?? MAJOR;
  const gpus = busIds.flatMap((busId, index) => {
    const text = textOf(join(folder, busId, "information"));
    const uuid = /^GPU UUID:\s*(GPU-[0-9a-f-]{36})$/m.exec(text)?.[1];
    const minor = /^Device Minor:\s*(\d+)$/m.exec(text)?.[1];
    return uuid === undefined || minor === undefined
      ? []
      : [
          {
            ...{ index, uuid, busId: plainBusId(busId), nodes: [`/dev/nvidia${minor}`] },
            devices: [`${major}:${minor}`, ...displayDevices(sys, busId)],
          },
        ];
  });
  // Half a list says of the others that they are gone.
  return gpus.length === busIds.length ? gpus : [];
}

/**
 * The same by the driver's answer, where its files do not say them, as in some containers and virtual machines: ids, and no devices, so that there is no wall.
 * None where one has no id, as one that is lost.
 */
export function namedGpus(gpus: readonly MachineGpu[]): readonly HostGpu[] {
  const named = gpus.flatMap(({ uuid, busId }, index): readonly HostGpu[] =>
    uuid?.startsWith("GPU-") !== true
      ? []
      : [
          {
            ...{ index, uuid, nodes: [], devices: [] },
            ...(busId !== undefined && { busId: plainBusId(busId) }),
          },
        ],
  );
  return named.length === gpus.length ? named : [];
}

function displayDevices(sys: string, busId: string): readonly string[] {
  const folder = join(sys, "bus", "pci", "devices", busId, "drm");
  return namesIn(folder)
    .map((name) => textOf(join(folder, name, "dev")))
    .filter((numbers) => /^\d+:\d+$/.test(numbers));
}
