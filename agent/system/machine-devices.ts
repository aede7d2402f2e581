/**
 * @file What this machine shows of its GPUs and of what lies around them: by `nvidia-smi -q -x` and `topo -m`, else by the PCI devices in `/sys`.
 *
 * GPUs are in the driver's order, which is PCI order, as `fleet.yaml` and leases count them. Nothing is changed on the machine.
 */

import { execFile } from "node:child_process";
import { availableParallelism, totalmem } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import {
  parseDeviceQuery,
  withInstanceNames,
  type MachineGpu,
} from "../../domain/fleet/parse-device-query.ts";
import { namesIn, textOf } from "./system-files.ts";
import { hasErrorCode } from "../../lib/error-code.ts";

export interface MachineDevices {
  /** By whom the GPUs were seen; `pci` knows only how many there are, and where. */
  readonly source: "nvidia-smi" | "pci";
  readonly gpus: readonly MachineGpu[];
  /** The output of `nvidia-smi topo -m`; absent where that fails, as in some virtual machines. */
  readonly topology?: string;
  /** InfiniBand and RoCE devices, by name. */
  readonly nics: readonly string[];
  readonly cpus: number;
  readonly memoryBytes: number;
}

export interface MachineView {
  /** Where programs are looked for. */
  readonly path: string | undefined;
  /** Where the kernel shows devices. */
  readonly sys?: string;
}

const run = promisify(execFile);
/** A driver that hangs answers nobody. */
const PATIENCE_MS = 20_000;
const MOST_BYTES = 16 * 2 ** 20;
const NVIDIA = "0x10de";
/** Of 3D and of VGA controllers. */
const DISPLAY = /^0x03(00|02)/;

/** The driver's answer to the words; undefined where there is no `nvidia-smi`. Fails where it does. */
export const askNvidiaSmi = (
  path: string | undefined,
  words: readonly string[],
): Promise<string | undefined> => askProgram(path, ["nvidia-smi", ...words]);

/** What a program of the machine's maker prints; undefined where there is none. Fails where it does. */
export async function askProgram(
  path: string | undefined,
  [program, ...words]: readonly [string, ...(readonly string[])],
): Promise<string | undefined> {
  const env = path === undefined ? {} : { PATH: path };
  const options = { timeout: PATIENCE_MS, maxBuffer: MOST_BYTES, env };
  try {
    return (await run(program, words, options)).stdout;
  } catch (error) {
    if (hasErrorCode(error, "ENOENT")) return undefined;
    throw error;
  }
}

export async function machineDevices({ path, sys = "/sys" }: MachineView): Promise<MachineDevices> {
  const around = {
    nics: namesIn(join(sys, "class", "infiniband")),
    cpus: availableParallelism(),
    memoryBytes: totalmem(),
  };
  const answer = await askNvidiaSmi(path, ["-q", "-x"]).catch(() => undefined);
  const whole = answer === undefined ? undefined : parseDeviceQuery(answer);
  if (whole === undefined) return { source: "pci", gpus: pciGpus(sys), ...around };
  const gpus = await withInstances(whole, path);
  const topology = await askNvidiaSmi(path, ["topo", "-m"]).catch(() => undefined);
  return { source: "nvidia-smi", gpus, ...(topology !== undefined && { topology }), ...around };
}

/** The list of instances is asked for only where there are some. */
export async function withInstances(
  gpus: readonly MachineGpu[],
  path: string | undefined,
): Promise<readonly MachineGpu[]> {
  if (gpus.every(({ instances }) => instances.length === 0)) return gpus;
  const list = await askNvidiaSmi(path, ["-L"]).catch(() => undefined);
  return list === undefined ? gpus : withInstanceNames(gpus, list);
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
