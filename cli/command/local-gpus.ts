/** @file The GPUs of this machine, as its NVIDIA driver names them: kind, memory, board power, and how they are joined. */

import { askDriver, NVML_VARIABLE, type DriverView } from "../../agent/system/gpu-driver.ts";
import { withInstances } from "../../agent/system/machine-devices.ts";
import { parseDeviceQuery, type MachineGpu } from "../../domain/fleet/parse-device-query.ts";
import { gpuTypeOfDevice } from "../../domain/values/gpu-device-name.ts";
import { gpuTypeName, isMigType } from "../../domain/values/gpu-types.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { harmless } from "../../domain/values/file-problem.ts";

export interface LocalGpus {
  readonly count: number;
  /** As the driver names them, e.g. `NVIDIA H100 80GB HBM3`. */
  readonly device: string;
  /** The well-known type; absent for a device that is none. */
  readonly type?: string;
  /** Absent where the driver does not say, as with memory that is the machine's. */
  readonly memoryMiB?: number;
  readonly watts?: number;
  /** The output of `nvidia-smi topo -m`; absent where that fails, as in some virtual machines. */
  readonly topology?: string;
}

const QUERY = [
  "--query-gpu=name,memory.total,power.default_limit",
  "--format=csv,noheader,nounits",
];

/**
 * Undefined on a machine without a driver.
 * Throws `BAD_INPUT` when the driver fails, and for GPUs of several kinds, which one entry of a fleet file cannot describe, unless `type` is that of one kind: then it is
 * that kind alone.
 */
export async function localGpus(
  view: DriverView,
  { type: wanted }: { readonly type?: string } = {},
): Promise<LocalGpus | undefined> {
  let gpus: readonly KindOfGpu[];
  try {
    const answer = await askDriver(view, ["-q", "-x"]);
    if (answer === undefined) return undefined;
    const shown = parseDeviceQuery(answer.text);
    gpus =
      shown === undefined
        ? listedGpus((await askDriver(view, QUERY))?.text ?? "")
        : (await withInstances(shown, view)).flatMap(leasedOf);
  } catch (error) {
    const said = error instanceof Error && "stdout" in error ? String(error.stdout) : "";
    throw new OrbweaverError(
      "BAD_INPUT",
      `the NVIDIA driver fails: ${harmless(said.trim() || (error instanceof Error ? error.message : String(error)))}. Mend the driver, or hide nvidia-smi from PATH and set ${NVML_VARIABLE}=off for a fleet of made-up GPUs.`,
    );
  }
  const ofType =
    wanted === undefined ? [] : gpus.filter(({ type }) => type === gpuTypeName(wanted));
  const chosen = ofType.length > 0 ? ofType : gpus;
  const [first] = chosen;
  if (first === undefined) return undefined;
  const others = [...new Set(chosen.map(({ device }) => device))];
  if (others.length > 1) {
    const types = [...new Set(chosen.flatMap(({ type }) => type ?? []))];
    throw new OrbweaverError(
      "BAD_INPUT",
      `this machine has GPUs of ${others.length} kinds (${others.map(harmless).join(", ")}), and a host of a fleet has one. ${
        types.length > 1
          ? `Give --type with one of ${types.join(", ")}; the others stay out of the fleet.`
          : "Write the file by hand, without the others."
      }`,
    );
  }
  // Between instances there are no links, and the matrix is of all GPUs.
  const topology =
    isMigType(first.type ?? "") || chosen.length < gpus.length
      ? undefined
      : (await askDriver(view, ["topo", "-m"]).catch(() => undefined))?.text;
  const { device, type, memoryMiB, watts } = first;
  return {
    device,
    ...(type !== undefined && { type }),
    ...(memoryMiB !== undefined && { memoryMiB }),
    ...(watts !== undefined && { watts }),
    count: chosen.length,
    ...(topology !== undefined && { topology }),
  };
}

type KindOfGpu = Omit<LocalGpus, "count" | "topology">;

/** The GPU, or its instances where MIG has divided it. */
function leasedOf(gpu: MachineGpu): readonly KindOfGpu[] {
  if (gpu.instances.length === 0) return [gpu];
  return gpu.instances.map(({ profile = "of no known profile" }) => ({
    device: `${gpu.device} MIG ${profile}`,
    ...(gpu.type !== undefined && { type: `${gpu.type}:${profile}` }),
  }));
}

/** Of a driver that does not know the longer answer. */
const listedGpus = (listed: string): readonly KindOfGpu[] =>
  listed.split("\n").flatMap((line) => (line.trim() === "" ? [] : [gpuOf(line)]));

function gpuOf(line: string): KindOfGpu {
  const [device = "", memory, power] = line.split(",").map((cell) => cell.trim());
  const [memoryMiB, watts] = [Number(memory), Number(power)];
  const type = gpuTypeOfDevice(device);
  return {
    device,
    ...(type !== undefined && { type }),
    ...(memoryMiB > 0 && { memoryMiB }),
    ...(watts > 0 && { watts }),
  };
}
