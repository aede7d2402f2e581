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
  /** The instances that MIG has made of it; none where it is whole. */
  readonly instances: readonly MigInstance[];
}

/** Its profile and id are in another answer of the driver, `nvidia-smi -L`. */
export interface MigInstance {
  /** Among those of its GPU. */
  readonly index: number;
  readonly gpuInstance: number;
  readonly computeInstance: number;
  /** e.g. `1g.10gb`. */
  readonly profile?: string;
  readonly uuid?: string;
}

/** What leases hold: whole GPUs, and of divided ones each instance. */
export interface LeasedDevice {
  /** `H100`, `H100:1g.10gb`; absent for a device that is no well-known type, or whose profile the driver does not say. */
  readonly type?: string;
  readonly uuid?: string;
  /** The GPU, by its place in the driver's order. */
  readonly gpu: number;
  readonly instance?: MigInstance;
}

/** In the order in which leases count: GPUs in the driver's, the instances of each in theirs. */
export const leasedDevices = (gpus: readonly MachineGpu[]): readonly LeasedDevice[] =>
  gpus.flatMap(({ type, uuid, instances }, gpu): readonly LeasedDevice[] =>
    instances.length === 0
      ? [{ ...(type !== undefined && { type }), ...(uuid !== undefined && { uuid }), gpu }]
      : instances.map((instance) => ({
          ...(type !== undefined &&
            instance.profile !== undefined && { type: `${type}:${instance.profile}` }),
          ...(instance.uuid !== undefined && { uuid: instance.uuid }),
          gpu,
          instance,
        })),
  );

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
      instances: [...instances.matchAll(/<mig_device>([\s\S]*?)<\/mig_device>/g)].map(
        ([, instance = ""], place) => ({
          index: numberOf(instance, "index") ?? place,
          gpuInstance: numberOf(instance, "gpu_instance_id") ?? -1,
          computeInstance: numberOf(instance, "compute_instance_id") ?? -1,
        }),
      ),
    };
  });
}

/** The same GPUs, their instances with the profiles and ids that `nvidia-smi -L` lists below each. */
export function withInstanceNames(
  gpus: readonly MachineGpu[],
  list: string,
): readonly MachineGpu[] {
  const named = new Map<string, Pick<MigInstance, "profile" | "uuid">>();
  let gpu = "";
  for (const line of list.split("\n")) {
    gpu = /^GPU \d+: .*\(UUID: (GPU-[^)]+)\)/.exec(line)?.[1] ?? gpu;
    const [, profile, index, uuid] =
      /^\s+MIG (\S+)\s+Device\s+(\d+): \(UUID: (MIG-[^)]+)\)/.exec(line) ?? [];
    if (profile !== undefined && uuid !== undefined)
      named.set(`${gpu} ${String(index)}`, { profile, uuid });
  }
  return gpus.map((each) => ({
    ...each,
    instances: each.instances.map((instance) => ({
      ...instance,
      ...named.get(`${each.uuid ?? ""} ${instance.index}`),
    })),
  }));
}

/** What stands between the first tags of the name. */
export const partOf = (xml: string, name: string): string =>
  new RegExp(`<${name}>([\\s\\S]*?)</${name}>`).exec(xml)?.[1] ?? "";

/** Undefined where the driver does not say. */
export function valueOf(xml: string, name: string): string | undefined {
  const value = partOf(xml, name).trim();
  return value === "" || value === "N/A" || value.includes("<") ? undefined : plain(value);
}

function numberOf(xml: string, name: string): number | undefined {
  const value = valueOf(xml, name);
  return value !== undefined && /^\d+$/.test(value) ? Number(value) : undefined;
}

function amountOf(xml: string, name: string): number | undefined {
  const amount = Number.parseFloat(valueOf(xml, name) ?? "");
  return amount > 0 ? amount : undefined;
}
