/**
 * @file A variable whose value a host looks up when it starts the job: `file:PATH`, `env:NAME` or `command:LINE`.
 *
 * The job file, its signature and every message carry this reference and never the value.
 */

import { shown } from "../values/file-problem.ts";
import type { Reading } from "../values/quantity.ts";
import { readText, refused } from "../file/schema-leaf.ts";

export type SecretSource =
  /** On the host; `~/` is the home of the job's user there. */
  | { readonly kind: "file"; readonly path: string }
  /** Of the agent's own environment. */
  | { readonly kind: "env"; readonly name: string }
  /** A line for `sh`, whose output is the value. */
  | { readonly kind: "command"; readonly line: string };

/** Of a job. */
export const MAX_SECRETS = 32;
const MAX_REFERENCE_CHARS = 4_096;
const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;
/** What agents themselves are configured with. */
const SETTINGS = /^(?:ORBWEAVER|TEMPORAL)_/;
const REMEDY = "write file:/PATH, file:~/PATH, env:NAME or command:LINE";

/** As JSON Schema; `parseSecret` says more. */
export const SECRET_PATTERN = "^(file:(~?/).*[^/]|env:[A-Za-z_][A-Za-z0-9_]*|command:.*[^ ].*)$";

export function parseSecret(value: unknown): Reading<SecretSource> {
  const reading = readText(value, MAX_REFERENCE_CHARS);
  if (reading.kind === "refused") return reading;
  const text = reading.value;
  const [, kind = "", rest = ""] = /^(file|env|command):([^]*)$/.exec(text) ?? [];
  switch (kind) {
    case "file":
      return isFilePath(rest)
        ? { kind: "read", value: { kind, path: rest } }
        : refused(`${shown(text)} names no file by its whole path`, REMEDY);
    case "env":
      if (!NAME.test(rest)) return refused(`${shown(text)} names no variable`, REMEDY);
      return SETTINGS.test(rest)
        ? refused(`${shown(rest)} is a setting of the agent itself`, "name another variable")
        : { kind: "read", value: { kind, name: rest } };
    case "command":
      return rest.trim() === ""
        ? refused(`${shown(text)} names no command`, REMEDY)
        : { kind: "read", value: { kind, line: rest } };
    default:
      return refused(`${shown(text)} is no reference to a secret`, REMEDY);
  }
}

const isFilePath = (path: string): boolean =>
  /^~?\//.test(path) && !path.endsWith("/") && !path.split("/").includes("..");
