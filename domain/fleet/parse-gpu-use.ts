/**
 * @file Reads how much each GPU of a machine is used: the driver's answer to `GPU_USE_WORDS`, and DCGM's to `TENSOR_WORDS`.
 *
 * Both answer in the driver's order; the driver with each GPU's id, since its order has no gaps for those that are gone. What one does not say of a GPU (`[N/A]`, as of memory that is the machine's) is absent.
 */

/** Of one GPU at one instant. Shares are from 0 to 1. */
export interface GpuReading {
  readonly uuid?: string;
  /** Of the last second or less: the part in which a kernel ran. */
  readonly use: number;
  readonly memoryMiB?: number;
  readonly memoryOfMiB?: number;
  readonly watts?: number;
}

/** To `nvidia-smi`: the form that its makers keep for scripts. */
export const GPU_USE_WORDS = [
  "--query-gpu=utilization.gpu,memory.used,memory.total,power.draw,uuid",
  "--format=csv,noheader,nounits",
] as const;

/** To `dcgmi`: one look at how much the tensor cores worked (DCGM_FI_PROF_PIPE_TENSOR_ACTIVE). */
export const TENSOR_WORDS = ["dmon", "-e", "1004", "-c", "1"] as const;

/** By GPU; undefined for one of which the driver does not say how much it is used. */
export function parseGpuUse(answer: string): readonly (GpuReading | undefined)[] {
  return answer
    .split("\n")
    .filter((line) => line.includes(","))
    .map((line) => {
      const values = line.split(",");
      const [use, memoryMiB, memoryOfMiB, watts] = values.map(amountOf);
      const uuid = values[4]?.trim() ?? "";
      if (use === undefined || use > 100) return undefined;
      return {
        ...(uuid.startsWith("GPU-") && { uuid }),
        use: use / 100,
        ...(memoryMiB !== undefined && { memoryMiB }),
        ...(memoryOfMiB !== undefined && { memoryOfMiB }),
        ...(watts !== undefined && { watts }),
      };
    });
}

/** Shares from 0 to 1 by GPU; undefined where DCGM does not say, as of GPUs without these counters. */
export function parseTensorUse(answer: string): readonly (number | undefined)[] {
  const found: (number | undefined)[] = [];
  for (const [, gpu = "", value = ""] of answer.matchAll(/^GPU (\d{1,3})\s+(\S+)/gm)) {
    const share = amountOf(value);
    found[Number(gpu)] = share === undefined || share > 1 ? undefined : share;
  }
  return found;
}

function amountOf(text: string): number | undefined {
  const plain = text.trim();
  return /^\d+(\.\d+)?$/.test(plain) ? Number(plain) : undefined;
}
