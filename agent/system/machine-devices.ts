/**
 * @file What this machine shows of its GPUs and of what lies around them: by its driver (NVML, else `nvidia-smi -q -x`; `topo -m`), else by the PCI
 * devices in `/sys`.
 *
 * GPUs are in the driver's order, which is PCI order, as `fleet.yaml` and leases count them. Nothing is changed on the machine.
 */

import { availableParallelism, totalmem } from "node:os";
import { join } from "node:path";
import {
  parseDeviceQuery,
  withInstanceNames,
  type MachineGpu,
} from "../../domain/fleet/parse-device-query.ts";
import { askDriver, type DriverView } from "./gpu-driver.ts";
import { namesIn, textOf } from "./system-files.ts";

export interface MachineDevices {
  /** By whom the GPUs were seen; `pci` knows only how many there are, and where. */
  readonly source: "nvml" | "nvidia-smi" | "pci";
  readonly gpus: readonly MachineGpu[];
  /** The output of `nvidia-smi topo -m`; absent where that fails, as in some virtual machines. */
  readonly topology?: string;
  /** InfiniBand and RoCE devices, by name. */
  readonly nics: readonly string[];
  readonly cpus: number;
  readonly memoryBytes: number;
}

export interface MachineView extends DriverView {
  /** Where the kernel shows devices. */
  readonly sys?: string;
}

const NVIDIA = "0x10de";
/** Of 3D and of VGA controllers. */
const DISPLAY = /^0x03(00|02)/;

export async function machineDevices(view: MachineView): Promise<MachineDevices> {
  const { sys = "/sys" } = view;
  const around = {
    nics: namesIn(join(sys, "class", "infiniband")),
    cpus: availableParallelism(),
    memoryBytes: totalmem(),
  };
  const answer = await askDriver(view, ["-q", "-x"]).catch(() => undefined);
  const whole = answer === undefined ? undefined : parseDeviceQuery(answer.text);
  if (answer === undefined || whole === undefined)
    return { source: "pci", gpus: pciGpus(sys), ...around };
  const gpus = await withInstances(whole, view);
  const topology = await askDriver(view, ["topo", "-m"]).catch(() => undefined);
  return {
    source: answer.by,
    gpus,
    ...(topology !== undefined && { topology: topology.text }),
    ...around,
  };
}

/** The list of instances is asked for only where there are some. */
export async function withInstances(
  gpus: readonly MachineGpu[],
  view: DriverView,
): Promise<readonly MachineGpu[]> {
  if (gpus.every(({ instances }) => instances.length === 0)) return gpus;
  const list = await askDriver(view, ["-L"]).catch(() => undefined);
  return list === undefined ? gpus : withInstanceNames(gpus, list.text);
}

function pciGpus(sys: string): readonly MachineGpu[] {
  const devices = join(sys, "bus", "pci", "devices");
  return namesIn(devices).flatMap((busId) => {
    const isGpu =
      textOf(join(devices, busId, "vendor")) === NVIDIA &&
      DISPLAY.test(textOf(join(devices, busId, "class")));
    return isGpu ? [{ busId, device: "NVIDIA GPU", instances: [] }] : [];
  });
}
