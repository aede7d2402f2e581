/** @file What differs between two job descriptions, for the refusal of a key that was used with another one before. */

import { pathText, shown, type ValuePath } from "./file-problem.ts";
import { byCodeUnit } from "./ids.ts";
import type { JobSpec } from "./job.ts";

export interface JobDifference {
  /** Of the `JobSpec`, e.g. `gang.gpus`. */
  readonly path: string;
  /** Both as they are shown to people; `nothing` where absent. */
  readonly was: string;
  readonly is: string;
}

/** By path, in code-unit order; empty when both say the same. */
export function diffJobSpecs(was: JobSpec, is: JobSpec): readonly JobDifference[] {
  return differences(was, is, []);
}

function differences(was: unknown, is: unknown, path: ValuePath): JobDifference[] {
  if (isMap(was) && isMap(is)) {
    const keys = [...new Set([...Object.keys(was), ...Object.keys(is)])].sort(byCodeUnit);
    return keys.flatMap((key) => differences(own(was, key), own(is, key), [...path, key]));
  }
  // Lists are compared whole: an argument more shifts all that follow.
  const [wasText, isText] = [plainText(was), plainText(is)];
  return wasText === isText ? [] : [{ path: pathText(path), was: textOf(was), is: textOf(is) }];
}

const isMap = (value: unknown): value is object =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const own = (map: object, key: string): unknown =>
  Object.hasOwn(map, key) ? Reflect.get(map, key) : undefined;

const plainText = (value: unknown): string | undefined => JSON.stringify(value);

const textOf = (value: unknown): string =>
  isMap(value) || Array.isArray(value) ? shown(JSON.stringify(value)) : shown(value);
