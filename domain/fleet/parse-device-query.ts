/**
 * @file Reads the GPUs out of `nvidia-smi -q -x`: what each is, which one it is, how much memory it has and what it draws.
 *
 * Only elements of known names are read, each the first of its name inside its GPU, so that other versions of the driver may say more. Values such as
 * `N/A` count as not said. The order of the answer is the driver's.
 */

import { gpuTypeOfDevice } from "../values/gpu-device-name.ts";
import { plain } from "../file/xml-elements.ts";

export interface MachineGpu {
  /** As the driver names it, e.g. `NVIDIA H100 80GB HBM3`. */
  readonly device: string;
  /** The well-known type; absent for a device that is none. */
  readonly type?: string;
  readonly uuid?: string;
  /** e.g. `00000000:18:00.0`. */
  readonly busId?: string;
  /** Absent where the driver does not say, as with memory that is the machine's. */
  readonly memoryMiB?: number;
  readonly watts?: number;
  /** How many instances MIG has made of it; none where it is whole. */
  readonly migDevices: number;
}

/** What the answer says of each GPU, without that of its MIG instances, which have memory of their own; undefined for a text that is none. */
export function gpusIn(
  xml: string,
):
  | readonly { readonly busId: string; readonly gpu: string; readonly instances: string }[]
  | undefined {
  if (!xml.includes("<nvidia_smi_log>")) return undefined;
  return [...xml.matchAll(/<gpu id="([^"]*)">([\s\S]*?)<\/gpu>/g)].map(
    ([, busId = "", whole = ""]) => {
      const instances = partOf(whole, "mig_devices");
      return { busId, instances, gpu: whole.replace(instances, () => "") };
    },
  );
}

/** Undefined for a text that is no such answer. */
export function parseDeviceQuery(xml: string): readonly MachineGpu[] | undefined {
  return gpusIn(xml)?.map(({ busId, gpu, instances }) => {
    const device = valueOf(gpu, "product_name") ?? "unknown";
    const type = gpuTypeOfDevice(device);
    const uuid = valueOf(gpu, "uuid");
    const memoryMiB = amountOf(partOf(gpu, "fb_memory_usage"), "total");
    const watts = amountOf(gpu, "default_power_limit");
    return {
      device,
      ...(type !== undefined && { type }),
      ...(uuid !== undefined && { uuid }),
      ...(busId !== "" && { busId }),
      ...(memoryMiB !== undefined && { memoryMiB }),
      ...(watts !== undefined && { watts }),
      migDevices: [...instances.matchAll(/<mig_device>/g)].length,
    };
  });
}

/** What stands between the first tags of the name. */
export const partOf = (xml: string, name: string): string =>
  new RegExp(`<${name}>([\\s\\S]*?)</${name}>`).exec(xml)?.[1] ?? "";

/** Undefined where the driver does not say. */
export function valueOf(xml: string, name: string): string | undefined {
  const value = partOf(xml, name).trim();
  return value === "" || value === "N/A" || value.includes("<") ? undefined : plain(value);
}

function amountOf(xml: string, name: string): number | undefined {
  const amount = Number.parseFloat(valueOf(xml, name) ?? "");
  return amount > 0 ? amount : undefined;
}
