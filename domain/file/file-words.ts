/** @file The names that job and fleet files share, each with the characters that it may have. */

import { shown } from "../values/file-problem.ts";
import { gpuTypeName, MIG_PROFILE } from "../values/gpu-types.ts";
import type { Reading } from "../values/quantity.ts";
import { leaf, readWord, refused, word, type LeafSchema } from "./schema-leaf.ts";

const PLAIN = {
  pattern: "[A-Za-z0-9][A-Za-z0-9._-]*",
  characters: "letters, digits, ., _ and -, beginning with a letter or digit",
  maxLength: 100,
} as const;

/** A tenant, cluster, site, rack or jurisdiction; `what` has its article. */
export const plainName = (
  what: string,
  { maxLength = PLAIN.maxLength, ...schema }: LeafSchema & { readonly maxLength?: number },
) => word({ ...PLAIN, what, maxLength }, schema);

/** `<cluster>/<host>`. */
export const hostName = (schema: LeafSchema) =>
  word(
    {
      what: "a host",
      pattern: `${PLAIN.pattern}/${PLAIN.pattern}`,
      characters: "a cluster, a slash and a host, such as eu-1/h100-1",
      maxLength: 2 * PLAIN.maxLength + 1,
    },
    schema,
  );

const MOMENT = "\\d{4}-\\d{2}-\\d{2}T\\d{2}:\\d{2}(:\\d{2}(\\.\\d{1,3})?)?(Z|[+-]\\d{2}:\\d{2})";

/** A point in time with its zone, in milliseconds since 1970; without a zone the time is ambiguous. */
export const moment = (schema: LeafSchema) =>
  leaf<string, number>(
    { ...schema, type: "string", pattern: `^${MOMENT}$`, format: "date-time", maxLength: 40 },
    (value) => {
      const remedy = `write date, time and zone, such as ${String(schema.examples?.[0])}`;
      const text = typeof value === "string" && value.length <= 40 ? value : "";
      if (!new RegExp(`^${MOMENT}$`).test(text)) {
        return refused(`${shown(value)} is not a point in time`, remedy);
      }
      const atMs = Date.parse(text);
      // The 30th of February would be read as the 2nd of March.
      const day = Number(text.slice(8, 10));
      const lastDay = new Date(Date.UTC(Number(text.slice(0, 4)), Number(text.slice(5, 7)), 0));
      return Number.isNaN(atMs) || day > lastDay.getUTCDate()
        ? refused(`${shown(value)} does not exist`, remedy)
        : { kind: "read", value: atMs };
    },
  );

/** A type of whole GPUs, or of instances of MIG. */
const GPU_TYPE = {
  pattern: `${PLAIN.pattern}(:${MIG_PROFILE})?`,
  characters: `${PLAIN.characters}; for instances of MIG a colon and their profile after it, such as H100:1g.10gb`,
  maxLength: 60,
} as const;

/** A well-known type in any case is that type, so that `h100` in a job finds the `H100` of the fleet. */
export function readGpuType(value: unknown): Reading<string> {
  const reading = readWord(value, { ...GPU_TYPE, what: "a GPU type" });
  if (reading.kind === "refused") return reading;
  // Counts by type are kept in plain objects, where such a name would find an inherited property.
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
      pattern: `^(${GPU_TYPE.pattern})$`,
      maxLength: GPU_TYPE.maxLength,
    },
    readGpuType,
  );
