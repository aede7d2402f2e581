/**
 * @file The GPUs of a host as its machine shows them: by which names a launch is told of its own, and which devices it may not open.
 *
 * Ids are names wherever the machine says them: a program that can open some GPUs alone counts those from 0, so an index would name another
 * one there, or none. Pure.
 */

export interface HostGpu {
  /** In PCI order, as leases count. */
  readonly index: number;
  readonly uuid: string;
  /** e.g. `/dev/nvidia3`; its number is not the index. */
  readonly node: string;
  /** Major and minor number of each device by which it can be opened: `195:3`, `226:128`. */
  readonly devices: readonly string[];
}

/** The value of CUDA_VISIBLE_DEVICES for these GPUs: ids, or indices where the machine does not say the id of each. */
export function visibleDevices(indices: readonly number[], gpus: readonly HostGpu[] = []): string {
  const ids = indices.map((index) => gpus[index]?.uuid);
  return (ids.includes(undefined) ? indices : ids).join(",");
}

/** The devices of all GPUs of the host but these. */
export const foreignDevices = (
  gpus: readonly HostGpu[],
  own: readonly number[],
): readonly string[] =>
  gpus.filter(({ index }) => !own.includes(index)).flatMap(({ devices }) => devices);
