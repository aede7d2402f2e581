/** @file What agents tell of their GPUs as the rows that browsers get: whole numbers, so that a steady host costs nothing. Pure. */

import type { GpuUse, HostUse } from "../../domain/lease/gpu-use.ts";
import { UNTOLD, type UseRow } from "../../page/wire.ts";

export function useRow(gpus: HostUse): UseRow {
  const each = (of: (gpu: GpuUse) => number | undefined): readonly number[] =>
    gpus.map((gpu) => Math.round((gpu === null ? undefined : of(gpu)) ?? UNTOLD));
  const tensor = each((gpu) => gpu.tensor && gpu.tensor * 100);
  return {
    use: each(({ use }) => use * 100),
    memory: each(({ memoryMiB, memoryOfMiB }) =>
      memoryMiB === undefined || memoryOfMiB === undefined || memoryOfMiB === 0
        ? undefined
        : (100 * memoryMiB) / memoryOfMiB,
    ),
    watts: each(({ watts }) => watts && Math.round(watts / 10) * 10),
    idleMinutes: each(({ idleMs }) => Math.floor(idleMs / 60_000)),
    ...(tensor.some((share) => share !== UNTOLD) && { tensor }),
  };
}
