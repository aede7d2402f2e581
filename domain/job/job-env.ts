/**
 * @file The environment variables of a job's processes: the names that users may set, and those that Orbweaver sets. A value is text, or
 * `{ secret: REFERENCE }` for one that hosts look up (`job-secret.ts`).
 */

import { shown } from "../values/file-problem.ts";
import type { Reading } from "../values/quantity.ts";
import { mapLeaf, readText, refused, type LeafSchema } from "../file/schema-leaf.ts";
import { parseSecret, SECRET_PATTERN } from "./job-secret.ts";

export interface SecretVariable {
  readonly secret: string;
}
export type Variable = string | SecretVariable;

/**
 * The variables that give each process its place in the gang or the array; a job that set one of them would break its own run.
 */
const RESERVED_ENV: readonly string[] = [
  "CUDA_VISIBLE_DEVICES",
  "RANK",
  "WORLD_SIZE",
  "LOCAL_RANK",
  "LOCAL_WORLD_SIZE",
  "NODE_RANK",
  "MASTER_ADDR",
  "MASTER_PORT",
  "ARRAY_INDEX",
  "ARRAY_COUNT",
];
const RESERVED_ENV_PREFIX = "ORBWEAVER_";
/** The places of the lease's GPUs among the host's, in PCI order, joined by commas; CUDA_VISIBLE_DEVICES may have ids. */
export const GPU_INDICES_VARIABLE = "ORBWEAVER_GPU_INDICES";

const NAME = "[A-Za-z_][A-Za-z0-9_]*";
/** Linux takes no longer argument or variable. */
export const MAX_ARGUMENT_CHARS = 128 * 1024 - 1;

export const environment = (schema: LeafSchema) =>
  mapLeaf<Variable>(
    {
      ...schema,
      additionalProperties: {
        anyOf: [
          { type: "string", maxLength: MAX_ARGUMENT_CHARS },
          {
            type: "object",
            properties: {
              secret: {
                type: "string",
                pattern: SECRET_PATTERN,
                description:
                  "Where the host finds the value: `file:/PATH`, `env:NAME` or `command:LINE`. It is looked up as the job's user, within what the host's policy names, and never leaves the host.",
              },
            },
            required: ["secret"],
            additionalProperties: false,
          },
        ],
      },
      propertyNames: {
        pattern: `^(?!${RESERVED_ENV_PREFIX}|(${RESERVED_ENV.join("|")})$)${NAME}$`,
      },
    },
    { readKey: readName, readValue },
  );

function readValue(value: unknown): Reading<Variable> {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    return readText(value, MAX_ARGUMENT_CHARS);
  const { secret, ...others } = value as Readonly<Record<string, unknown>>;
  if (secret === undefined || Object.keys(others).length > 0)
    return refused(
      `${shown(JSON.stringify(value))} is neither text nor a secret`,
      "write text, or { secret: file:/PATH }",
    );
  const source = parseSecret(secret);
  return source.kind === "refused" ? source : { kind: "read", value: { secret: secret as string } };
}

/** Whether a job may set the variable. */
export const isVariableName = (name: string): boolean => readName(name).kind === "read";

/** Hosts set these over what the job says of them; the value of a secret would come after that. */
const SET_BY_HOSTS = /^(?:CUDA_DEVICE_ORDER|NNODES|NPROC_PER_NODE|PET_\w+)$/;

/** Whether the value of a variable may be looked up on the host. */
export const isSecretName = (name: string): boolean =>
  isVariableName(name) && !SET_BY_HOSTS.test(name);

function readName(name: string): Reading<string> {
  if (name.startsWith(RESERVED_ENV_PREFIX) || RESERVED_ENV.includes(name)) {
    return refused(`${shown(name)} is set by Orbweaver itself`, "leave it out");
  }
  // `__proto__` is a legal variable elsewhere, but no key that survives copies of an object.
  const isName = new RegExp(`^${NAME}$`).test(name) && name !== "__proto__";
  if (isName) return { kind: "read", value: name };
  const remedy = "use letters, digits and _, beginning with a letter or _";
  return refused(`${shown(name)} is not a name of a variable`, remedy);
}
