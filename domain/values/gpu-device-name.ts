/**
 * @file The well-known GPU type that a device name of the driver means: `NVIDIA A100-SXM4-40GB` is `A100-40`.
 *
 * The form with its memory or its slot goes before the plain type; names that no type fits mean none.
 */

import { knownGpuType } from "./gpu-types.ts";

export function gpuTypeOfDevice(device: string): string | undefined {
  const words = device.toUpperCase().split(/[^A-Z0-9]+/);
  const type = words.find((word) => knownGpuType(word) !== undefined);
  if (type === undefined) return undefined;
  const forms = words.map((word) => `${type}-${word.replace(/GB$/, "")}`);
  return forms.find((form) => knownGpuType(form) !== undefined) ?? type;
}
