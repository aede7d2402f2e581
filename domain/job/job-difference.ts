/** @file The differences between two job specs, for the error of a key that another job has already used. */

import { pathText, shown, type ValuePath } from "../values/file-problem.ts";
import { byCodeUnit } from "../values/ids.ts";
import type { JobSpec } from "./job.ts";

export interface JobDifference {
  /** Of the `JobSpec`, e.g. `gang.gpus`. */
  readonly path: string;
  /** Both values as text; `nothing` where absent. */
  readonly was: string;
  readonly is: string;
}

/** By path, in code-unit order; empty when the specs are equal. */
export function diffJobSpecs(was: JobSpec, is: JobSpec): readonly JobDifference[] {
  return diffValues(was, is);
}

/** The same for any two values of plain data. */
export const diffValues = (was: unknown, is: unknown): readonly JobDifference[] =>
  differences(was, is, []);

function differences(was: unknown, is: unknown, path: ValuePath): JobDifference[] {
  if (isMap(was) && isMap(is)) {
    const keys = [...new Set([...Object.keys(was), ...Object.keys(is)])].sort(byCodeUnit);
    return keys.flatMap((key) => differences(own(was, key), own(is, key), [...path, key]));
  }
  // Lists are compared whole, because one inserted argument shifts all later ones.
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
