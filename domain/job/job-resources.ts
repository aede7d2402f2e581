/** @file Processors and memory of the hosts that a job may use beside its GPUs, as it asked for them, and in words. */

import type { GiB } from "../values/units.ts";

export interface ResourceNeed {
  /** For each of its GPUs; or for the whole gang, in a job array for each task. */
  readonly per: "gpu" | "total";
  /** Processors; parts of one count. */
  readonly cpus?: number;
  readonly memoryGiB?: GiB;
}

/** What each GPU of a gang takes of its host's processors and memory; the GPU's share of what is absent. */
export interface GpuNeed {
  readonly cpus?: number;
  readonly memoryGiB?: number;
}

/** A total is divided among the GPUs of the smallest gang that the job accepts: a larger one needs no more for each. */
export function gpuNeed({ per, cpus, memoryGiB }: ResourceNeed, smallestGpus: number): GpuNeed {
  const sharers = per === "gpu" ? 1 : smallestGpus;
  return {
    ...(cpus !== undefined && { cpus: cpus / sharers }),
    ...(memoryGiB !== undefined && { memoryGiB: memoryGiB / sharers }),
  };
}

const MIB = 2 ** 20;
const GIB = 2 ** 30;

/** `12.5 CPUs`, `64 GiB`, `512 MiB`. */
export function amountText(key: "cpus" | "memoryBytes", amount: number): string {
  if (key === "cpus") return `${rounded(amount)} CPUs`;
  return amount < GIB ? `${rounded(amount / MIB)} MiB` : `${rounded(amount / GIB)} GiB`;
}

/** The same of what a `GpuNeed` names. */
export const resourceText = (of: keyof GpuNeed, amount: number): string =>
  of === "cpus" ? amountText("cpus", amount) : amountText("memoryBytes", amount * GIB);

const rounded = (amount: number): string => String(Math.round(amount * 10) / 10);

/** As a job's author thinks of it: `8 CPUs and 64 GiB for each GPU`. */
export function needText({ per, cpus, memoryGiB }: Pick<ResourceNeed, "per"> & GpuNeed): string {
  const parts = [
    ...(cpus === undefined ? [] : [amountText("cpus", cpus)]),
    ...(memoryGiB === undefined ? [] : [amountText("memoryBytes", memoryGiB * GIB)]),
  ];
  return `${parts.join(" and ")} ${per === "gpu" ? "for each GPU" : "in all"}`;
}
