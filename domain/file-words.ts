/** @file The names that job and fleet files share, each with the characters that it may have. */

import { gpuTypeName } from "./gpu-types.ts";
import { word, type LeafSchema } from "./schema-leaf.ts";

const PLAIN = {
  pattern: "[A-Za-z0-9][A-Za-z0-9._-]*",
  characters: "letters, digits, ., _ and -, beginning with a letter or digit",
  maxLength: 100,
} as const;

/** A tenant, cluster, site, rack or jurisdiction; `what` has its article. */
export const plainName = (what: string, schema: LeafSchema) => word({ ...schema, ...PLAIN, what });

const GPU_TYPE = {
  ...PLAIN,
  what: "a GPU type",
  maxLength: 60,
  examples: ["H100", "A100-80"],
} as const;

/** A well-known type in any case is that type, so that `h100` in a job finds the `H100` of the fleet. */
export function gpuType(schema: LeafSchema) {
  return word({ ...schema, ...GPU_TYPE }).transform((name, context) => {
    // A fleet keys counts by type in plain objects, where such a name would find what every object has.
    if (name in Object.prototype) {
      context.addIssue({
        code: "custom",
        message: `"${name}" is reserved`,
        params: { remedy: "name the GPU type otherwise" },
      });
    }
    return gpuTypeName(name);
  });
}
