/** @file The variables of a job's processes: which names users may set, and which Orbweaver sets itself. */

import { z } from "zod";
import { shown } from "./file-problem.ts";
import { readText, type LeafSchema } from "./schema-leaf.ts";

/** What each process is told about its place in the gang; a job that sets one of them would break its own run. */
export const RESERVED_ENV: readonly string[] = [
  "CUDA_VISIBLE_DEVICES",
  "RANK",
  "WORLD_SIZE",
  "LOCAL_RANK",
  "LOCAL_WORLD_SIZE",
  "NODE_RANK",
  "MASTER_ADDR",
  "MASTER_PORT",
];
export const RESERVED_ENV_PREFIX = "ORBWEAVER_";

const NAME = "[A-Za-z_][A-Za-z0-9_]*";
/** Linux takes no longer argument or variable. */
export const MAX_ARGUMENT_CHARS = 128 * 1024 - 1;

/** A map of text by name; written by hand, because zod's records drop keys such as `__proto__` without a word. */
export function environment(schema: LeafSchema) {
  return z
    .custom<Readonly<Record<string, string>>>()
    .transform((value: unknown, context): Readonly<Record<string, string>> => {
      const refuse = (path: string[], message: string, remedy: string): void =>
        context.addIssue({ code: "custom", path, message, params: { remedy } });
      if (typeof value !== "object" || value === null || Array.isArray(value)) {
        refuse([], `${shown(value)} is not a map`, 'write a map such as {EPOCHS: "10"}');
        return z.NEVER;
      }
      const entries: [string, string][] = [];
      for (const [name, setting] of Object.entries(value)) {
        const message = nameProblem(name);
        if (message !== undefined) refuse([name], message.found, message.remedy);
        const reading = readText(setting, MAX_ARGUMENT_CHARS);
        if (reading.kind === "refused") refuse([name], reading.message, reading.remedy);
        else entries.push([name, reading.value]);
      }
      return Object.fromEntries(entries);
    })
    .meta({
      ...schema,
      type: "object",
      additionalProperties: { type: "string", maxLength: MAX_ARGUMENT_CHARS },
      propertyNames: {
        pattern: `^(?!${RESERVED_ENV_PREFIX}|(${RESERVED_ENV.join("|")})$)${NAME}$`,
      },
    });
}

function nameProblem(
  name: string,
): { readonly found: string; readonly remedy: string } | undefined {
  if (name.startsWith(RESERVED_ENV_PREFIX) || RESERVED_ENV.includes(name)) {
    return { found: `${shown(name)} is set by Orbweaver itself`, remedy: "leave it out" };
  }
  // A legal variable elsewhere, but no key that survives copies of an object.
  const isName = new RegExp(`^${NAME}$`).test(name) && name !== "__proto__";
  if (isName) return undefined;
  return {
    found: `${shown(name)} is not a name of a variable`,
    remedy: "use letters, digits and _, beginning with a letter or _",
  };
}
