/**
 * @file The GPUs for a served language model: how many on each host, and what one of them can do. All are of one type; a plan over two types would be
 * as fast as the slower one.
 */

import { gpuMemoryGbs, gpuTeraflops } from "../../domain/values/gpu-speed.ts";
import { insideOf } from "../parallelism/fleet-site.ts";
import { instancesProblem, type PlanSite } from "../parallelism/site.ts";
import type { ServingGpu } from "./engine-time.ts";

export interface ServingSite {
  readonly gpuType: string;
  readonly memoryGiB: number;
  readonly teraflops: number;
  readonly memoryGbs: number;
  /** GPUs of each host. */
  readonly hostGpus: readonly number[];
  /** GPUs that reach each other over NVLink alone, on every host; 1 without it. */
  readonly nvlinkGpus: number;
}

export type ServingSiteAnswer =
  | { readonly kind: "site"; readonly site: ServingSite }
  | { readonly kind: "blocked"; readonly message: string };

export function servingSite({ hosts }: PlanSite): ServingSiteAnswer {
  const [first] = hosts;
  if (first === undefined)
    return { kind: "blocked", message: "there are no GPUs to serve on. Name some." };
  const { gpuType, memoryGiB } = first;
  const other = hosts.find((host) => host.gpuType !== gpuType || host.memoryGiB !== memoryGiB);
  if (other !== undefined) {
    const types = `${gpuType} of ${memoryGiB} GiB (${first.id}) and ${other.gpuType} of ${other.memoryGiB} GiB (${other.id})`;
    return {
      kind: "blocked",
      message: `a model is served by GPUs of one kind, not by ${types}. Name hosts of one kind.`,
    };
  }
  const instances = instancesProblem(hosts);
  if (instances !== undefined) return { kind: "blocked", message: instances };
  const [teraflops, memoryGbs] = [gpuTeraflops(gpuType), gpuMemoryGbs(gpuType)];
  if (teraflops === undefined || memoryGbs === undefined)
    return {
      kind: "blocked",
      message: `the speed of GPU type ${gpuType} is not known, so no times can be planned. Name a known type, such as H100.`,
    };
  return {
    kind: "site",
    site: {
      gpuType,
      memoryGiB,
      teraflops,
      memoryGbs,
      hostGpus: hosts.map(({ gpuCount }) => gpuCount),
      nvlinkGpus: hosts.reduce((common, host) => divisor(common, host.nvlinkGpus), 0),
    },
  };
}

/** One GPU of a tensor group of `width` GPUs. */
export function servingGpu(site: ServingSite, width: number): ServingGpu {
  const { teraflops, memoryGbs, memoryGiB, gpuType, nvlinkGpus } = site;
  const hasNvlink = nvlinkGpus > 1 && nvlinkGpus % width === 0;
  return { teraflops, memoryGbs, memoryGiB, hasNvlink, inside: insideOf(gpuType, hasNvlink) };
}

const divisor = (a: number, b: number): number => (b === 0 ? a : divisor(b, a % b));
