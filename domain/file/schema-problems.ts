/**
 * @file Turns a schema's issues into problems with remedies.
 *
 * An unknown key gets the nearest known one: first among its siblings, then anywhere in the file (`gpus` at the top belongs
 * into `gang`). Remedies for maps and lists come from the JSON Schema of the place. In a union, the second member is the map or
 * list and checks those; a third one checks lists; the first member checks everything else.
 */

import type { z } from "zod";
import {
  MAX_FILE_PROBLEMS,
  pathText,
  shown,
  type FileProblem,
  type ValuePath,
} from "../values/file-problem.ts";
import type { JsonSchema } from "./json-schema.ts";
import type { LocatedYaml } from "./located-yaml.ts";
import { nearestName } from "../values/nearest-name.ts";

/** A problem without its place in a text. */
export interface SchemaProblem {
  readonly path: ValuePath;
  /** Whether the problem is about the key or its value. */
  readonly part: "key" | "value";
  readonly value: unknown;
  readonly message: string;
  readonly remedy: string;
}

/** The file of a problem, when its value came from a text. */
export interface Origin {
  readonly file: string;
  readonly yaml: LocatedYaml;
}

export function asFileProblem(problem: SchemaProblem, origin?: Origin): FileProblem {
  const { path, part, value, message, remedy } = problem;
  return {
    ...(origin !== undefined && { file: origin.file, ...origin.yaml.placeOf(path, part) }),
    path: pathText(path),
    value: shown(value),
    message,
    remedy,
  };
}

export interface Judged {
  readonly value: unknown;
  readonly schema: JsonSchema;
}

export function schemaProblems(
  issues: readonly z.core.$ZodIssue[],
  judged: Judged,
): SchemaProblem[] {
  return issues.flatMap((issue) => problemsOf(issue, [], judged));
}

function problemsOf(issue: z.core.$ZodIssue, above: ValuePath, judged: Judged): SchemaProblem[] {
  const path = [
    ...above,
    ...issue.path.map((part) => (typeof part === "number" ? part : String(part))),
  ];
  const value = valueAt(judged.value, path);
  const problem = { path, part: "value", value } as const;
  switch (issue.code) {
    case "custom":
      return [
        {
          ...problem,
          message: issue.message,
          remedy: String(issue.params?.["remedy"] ?? "mend it"),
        },
      ];
    case "unrecognized_keys":
      // Each of the later ones has enough problems before it never to be shown.
      return issue.keys.map((key, at) =>
        at < MAX_FILE_PROBLEMS
          ? unknownKey([...path, key], judged)
          : {
              path: [...path, key],
              part: "key",
              value: undefined,
              message: "unknown key",
              remedy: LEAVE_OUT,
            },
      );
    case "invalid_union": {
      const isStructure = typeof value === "object" && value !== null;
      const [ofPlain, ofStructure, ofList = ofStructure] = issue.errors;
      const chosen = (Array.isArray(value) ? ofList : isStructure ? ofStructure : ofPlain) ?? [];
      return chosen.flatMap((inner) => problemsOf(inner, path, judged));
    }
    case "too_big":
      return [{ ...problem, message: shown(value), remedy: `name at most ${issue.maximum}` }];
    case "too_small": {
      const remedy = `name at least ${issue.minimum}`;
      const isRequired = schemasAt(judged.schema, path.slice(0, -1)).some((around) =>
        around.required?.includes(String(path.at(-1))),
      );
      return [
        {
          ...problem,
          message: shown(value),
          remedy: isRequired ? remedy : `${remedy}, or leave the key out`,
        },
      ];
    }
    default: {
      const what = issue.code === "invalid_type" && issue.expected === "array" ? "list" : "map";
      const absent = path.length === 0 ? "the file is empty" : "missing";
      const message = value === undefined ? absent : `${shown(value)} is not a ${what}`;
      return [
        {
          ...problem,
          message,
          remedy: what === "list" ? listRemedy(path, judged) : mapRemedy(path, judged.schema),
        },
      ];
    }
  }
}

const LEAVE_OUT = "leave it out";

function unknownKey(path: ValuePath, { value, schema }: Judged): SchemaProblem {
  const key = String(path.at(-1));
  const siblings = knownKeys(schema, path.slice(0, -1));
  const near = nearestName(key, siblings) ?? keyElsewhere(key, schema);
  const remedy =
    near !== undefined
      ? `did you mean \`${near}\`?`
      : `${LEAVE_OUT}; known keys are ${siblings.join(", ")}`;
  const name = shown(key).slice(1, -1);
  return {
    path,
    part: "key",
    value: valueAt(value, path),
    message: `unknown key \`${name}\``,
    remedy,
  };
}

function listRemedy(path: ValuePath, { value, schema }: Judged): string {
  const found = valueAt(value, path);
  if (typeof found === "string" && /^[\w.-]{1,40}$/.test(found)) return `write [${found}]`;
  const example = schemasAt(schema, path)
    .flatMap((each) => each.examples ?? [])
    .find(Array.isArray);
  return example === undefined ? "write a list" : `write a list such as ${JSON.stringify(example)}`;
}

function mapRemedy(path: ValuePath, schema: JsonSchema): string {
  const keys = knownKeys(schema, path);
  return keys.length === 0 ? "write a map" : `write a map with the keys ${keys.join(", ")}`;
}

const knownKeys = (schema: JsonSchema, path: ValuePath): string[] => [
  ...new Set(schemasAt(schema, path).flatMap((each) => Object.keys(each.properties ?? {}))),
];

/** The schemas of a place: several where it is a union. */
function schemasAt(schema: JsonSchema, path: ValuePath): readonly JsonSchema[] {
  const [step, ...rest] = path;
  if (schema.anyOf !== undefined) return schema.anyOf.flatMap((member) => schemasAt(member, path));
  if (step === undefined) return [schema];
  const { properties = {}, additionalProperties } = schema;
  const other = typeof additionalProperties === "object" ? additionalProperties : undefined;
  const inside =
    typeof step === "number"
      ? schema.items
      : Object.hasOwn(properties, step)
        ? properties[step]
        : other;
  return inside === undefined ? [] : schemasAt(inside, rest);
}

/** The place in the file where a key of this name is known, e.g. `gang.gpus` for `gpus`. */
function keyElsewhere(key: string, schema: JsonSchema): string | undefined {
  const members = schema.anyOf ?? [schema];
  for (const { properties = {}, items } of members) {
    if (Object.hasOwn(properties, key)) return key;
    for (const [name, inside] of Object.entries(properties)) {
      const found = keyElsewhere(key, inside);
      if (found !== undefined)
        return found.startsWith("[]") ? `${name}${found}` : `${name}.${found}`;
    }
    const found = items === undefined ? undefined : keyElsewhere(key, items);
    if (found !== undefined) return `[].${found}`;
  }
  return undefined;
}

/** What is wrong with the value that stands at the path of a file. */
export function problemAt(
  file: unknown,
  path: ValuePath,
  { message, remedy }: Pick<SchemaProblem, "message" | "remedy">,
): SchemaProblem {
  return { path, part: "value", value: valueAt(file, path), message, remedy };
}

/** Own properties only, so that `constructor` is not found in a file without it. */
export function valueAt(value: unknown, path: ValuePath): unknown {
  let inside = value;
  for (const step of path) {
    if (typeof inside !== "object" || inside === null || !Object.hasOwn(inside, step))
      return undefined;
    inside = Reflect.get(inside, step);
  }
  return inside;
}
