/**
 * @file Labels of a job: words of its author by which jobs are found. They change nothing in how a job is scheduled or run.
 *
 * The search index stores each as `key=value`, so neither part may hold `=` or quotes.
 */

import {
  mapLeaf,
  readWord,
  refused,
  word,
  type LeafSchema,
  type WordRule,
} from "../file/schema-leaf.ts";
import { shown } from "../values/file-problem.ts";
import { byCodeUnit } from "../values/ids.ts";
import type { Reading } from "../values/quantity.ts";

export type Labels = Readonly<Record<string, string>>;

/** Together they stand in one attribute of the search index. */
export const MAX_LABELS = 16;
const MAX_WORD_CHARS = 63;

const WORD = "[A-Za-z0-9][A-Za-z0-9._/-]*";
const CHARACTERS = "letters, digits, ., _, / and -, beginning with a letter or digit";
const KEY: WordRule = {
  what: "a label",
  pattern: WORD,
  characters: CHARACTERS,
  maxLength: MAX_WORD_CHARS,
};
const VALUE: WordRule = { ...KEY, what: "the value of a label" };

export const labelMap = (schema: LeafSchema) =>
  mapLeaf<string>(
    {
      ...schema,
      maxProperties: MAX_LABELS,
      additionalProperties: { type: "string", pattern: `^${WORD}$`, maxLength: MAX_WORD_CHARS },
      propertyNames: { pattern: `^${WORD}$`, maxLength: MAX_WORD_CHARS },
    },
    { readKey: (key) => readWord(key, KEY), readValue: (value) => readWord(value, VALUE) },
  );

/** The jobs of a group have this label: lists and orders find them by it. */
const GROUP = "group";

export const groupName = (schema: LeafSchema) => word({ ...VALUE, what: "a group" }, schema);

/** As `parseLabelChoice` reads it. */
export const groupChoice = (group: string): string => `${GROUP}=${group}`;

export const labelsWithGroup = (labels: Labels = {}, group?: string): Labels =>
  group === undefined ? labels : { ...labels, [GROUP]: group };

export interface LabelChoice {
  readonly key: string;
  /** Absent: any value. */
  readonly value?: string;
}

/** `team=vision`, or `team` for any value. */
export function parseLabelChoice(text: string): Reading<LabelChoice> {
  const at = text.indexOf("=");
  const key = readWord(at === -1 ? text : text.slice(0, at), KEY);
  if (key.kind === "refused") return key;
  if (at === -1) return { kind: "read", value: { key: key.value } };
  const value = readWord(text.slice(at + 1), VALUE);
  if (value.kind === "refused") return value;
  return { kind: "read", value: { key: key.value, value: value.value } };
}

/** `team=vision`, in the order of the keys' code units. */
export const labelTexts = (labels: Labels): readonly string[] =>
  Object.entries(labels)
    .map(([key, value]) => `${key}=${value}`)
    .sort(byCodeUnit);

/** The labels of a list of `key=value`; an entry without `=` is left out. */
export function labelsOf(texts: readonly string[]): Labels {
  const entries = texts.flatMap((text) => {
    const at = text.indexOf("=");
    return at < 1 ? [] : [[text.slice(0, at), text.slice(at + 1)] as const];
  });
  return Object.fromEntries(entries);
}

/** Undefined when there are not too many. */
export function labelCountProblem(
  labels: unknown,
  group: unknown,
): ReturnType<typeof refused> | undefined {
  if (typeof labels !== "object" || labels === null) return undefined;
  const own = Object.hasOwn(labels, GROUP) ? Reflect.get(labels, GROUP) : undefined;
  if (group !== undefined && own !== undefined && own !== group)
    return refused(`the label ${GROUP} is ${shown(own)}, and group is ${shown(group)}`, "keep one");
  const count = Object.keys(labels).length + (group === undefined || own !== undefined ? 0 : 1);
  if (count <= MAX_LABELS) return undefined;
  return refused(`${shown(count)} labels`, `write at most ${MAX_LABELS}`);
}
