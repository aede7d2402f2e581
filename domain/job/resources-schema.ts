/**
 * @file The keys of a job file for processors and memory, and the rule between them: for each GPU or for all, never both.
 */

import { z } from "zod";
import type { ResourceNeed } from "./job-resources.ts";
import { memory, positiveNumber } from "../file/schema-leaf.ts";
import { valueAt, type SchemaProblem } from "../file/schema-problems.ts";

const MAX_CPUS = 1_000_000;

const amounts = (of: string, cpus: number, size: string) =>
  z
    .strictObject({
      cpus: positiveNumber({
        max: MAX_CPUS,
        description: `Processors for ${of}, shared by weight where they are short. Default: in proportion to its GPUs.`,
        examples: [cpus],
      }).optional(),
      memory: memory({
        description: `Memory of the host for ${of}; the kernel kills the job where it wants more. Default: in proportion to its GPUs.`,
        examples: [size],
      }).optional(),
    })
    .meta({ description: `Processors and memory for ${of}.` });

export const resources = z
  .strictObject({
    perGpu: amounts("each GPU of the job", 8, "64 GiB").optional(),
    total: amounts("the whole gang, of an array for each task", 64, "512 GiB").optional(),
  })
  .meta({
    description:
      "Processors and memory of the hosts, beside the GPUs: `perGpu` or `total`, one of the two. At most the share of the job's GPUs.",
    examples: [{ perGpu: { cpus: 8, memory: "64 GiB" } }],
  });

export function resourceNeed(
  file: z.output<typeof resources> | undefined,
): { readonly resources: ResourceNeed } | Record<string, never> {
  const found = file?.perGpu ?? file?.total;
  if (found === undefined) return {};
  const { cpus, memory: memoryGiB } = found;
  return {
    resources: {
      per: file?.perGpu === undefined ? "total" : "gpu",
      ...(cpus !== undefined && { cpus }),
      ...(memoryGiB !== undefined && { memoryGiB }),
    },
  };
}

export function resourceProblems(file: unknown): SchemaProblem[] {
  const path = ["resources"];
  const value = valueAt(file, path);
  if (typeof value !== "object" || value === null || Array.isArray(value)) return [];
  const ways = ["perGpu", "total"].filter((way) => valueAt(value, [way]) !== undefined);
  if (ways.length === 2)
    return [
      {
        path: [...path, "total"],
        part: "value",
        value: valueAt(file, [...path, "total"]),
        message: "perGpu and total are both given",
        remedy: "keep one of the two",
      },
    ];
  const [way] = ways;
  const amounts = way === undefined ? value : valueAt(value, [way]);
  // A misspelt key is reported already.
  if (typeof amounts !== "object" || amounts === null || Object.keys(amounts).length > 0) return [];
  return [
    {
      path: way === undefined ? path : [...path, way],
      part: "value",
      value: amounts,
      message: "no amount is named",
      remedy: "write perGpu: { cpus: 8, memory: 64 GiB }, or leave it out",
    },
  ];
}
