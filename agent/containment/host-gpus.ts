/**
 * @file The GPUs of a host as its machine shows them: by which names a launch is told of its own, and which devices it may not open.
 *
 * Ids are names wherever the machine says them: a program that can open some GPUs alone counts those from 0, so an index would name another
 * one there, or none. A GPU of the host may be an instance of MIG. Pure.
 */

export interface HostGpu {
  /** Its place, as leases count: that of the PCI order in which the host has first seen its GPUs (`placed-gpus.ts`). */
  readonly index: number;
  readonly uuid: string;
  /** As the driver names it in the kernel log (`xid.ts`); of an instance of MIG that of its GPU. */
  readonly busId?: string;
  /** Of an instance of MIG: its GPU, by the place in PCI order. */
  readonly gpu?: number;
  /** e.g. `/dev/nvidia3`, whose number is not the index; of an instance those of its capabilities, too. */
  readonly nodes: readonly string[];
  /** Major and minor number of each device by which it can be opened: `195:3`, `226:128`. */
  readonly devices: readonly string[];
  /** The machine does not show it now; its place is nobody's meanwhile. */
  readonly isGone?: true;
}

/** The value of CUDA_VISIBLE_DEVICES for these GPUs: ids, or indices where the machine does not say the id of each. */
export function visibleDevices(indices: readonly number[], gpus: readonly HostGpu[] = []): string {
  const ids = uuidsOf(indices, gpus);
  return (ids.includes(undefined) ? indices : ids).join(",");
}

/** Undefined for a place of which the host knows no GPU. */
export const uuidsOf = (
  indices: readonly number[],
  gpus: readonly HostGpu[] = [],
): readonly (string | undefined)[] => indices.map((index) => gpus[index]?.uuid);

/** The devices of all GPUs of the host but these. Instances of one GPU share its device, which one lease alone may not need. */
export function foreignDevices(
  gpus: readonly HostGpu[],
  own: readonly number[],
): readonly string[] {
  const devicesOf = (isOwn: boolean): readonly string[] =>
    gpus.filter(({ index }) => own.includes(index) === isOwn).flatMap(({ devices }) => devices);
  const shared = new Set(devicesOf(true));
  return [...new Set(devicesOf(false))].filter((device) => !shared.has(device));
}

/** The GPUs of the host, as leases count them, that lie on these GPUs of the machine. */
export const hostGpusOn = (
  gpus: readonly HostGpu[] | undefined,
  places: readonly number[],
): readonly number[] =>
  gpus?.some(({ gpu }) => gpu !== undefined) === true
    ? gpus.flatMap(({ index, gpu = index }) => (places.includes(gpu) ? [index] : []))
    : places;
