/** @file The names that job and fleet files share, each with the characters that it may have. */

import { gpuTypeName } from "./gpu-types.ts";
import type { Reading } from "./quantity.ts";
import { leaf, readWord, refused, word, type LeafSchema } from "./schema-leaf.ts";

const PLAIN = {
  pattern: "[A-Za-z0-9][A-Za-z0-9._-]*",
  characters: "letters, digits, ., _ and -, beginning with a letter or digit",
  maxLength: 100,
} as const;

/** A tenant, cluster, site, rack or jurisdiction; `what` has its article. */
export const plainName = (what: string, schema: LeafSchema) => word({ ...PLAIN, what }, schema);

/** A well-known type in any case is that type, so that `h100` in a job finds the `H100` of the fleet. */
export function readGpuType(value: unknown): Reading<string> {
  const reading = readWord(value, { ...PLAIN, what: "a GPU type", maxLength: 60 });
  if (reading.kind === "refused") return reading;
  // Counts by type are kept in plain objects, where such a name would find what every object has.
  if (reading.value in Object.prototype) {
    return refused(`"${reading.value}" is reserved`, "name the GPU type otherwise");
  }
  return { kind: "read", value: gpuTypeName(reading.value) };
}

export const gpuType = (schema: LeafSchema) =>
  leaf<string, string>(
    {
      examples: ["H100", "A100-80"],
      ...schema,
      type: "string",
      pattern: `^(${PLAIN.pattern})$`,
      maxLength: 60,
    },
    readGpuType,
  );
