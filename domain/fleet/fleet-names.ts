/** @file The rules on names in a fleet file: names are unique, and referenced names exist. */

import { pathText, shown, type ValuePath } from "../values/file-problem.ts";
import { nearestName } from "../values/nearest-name.ts";
import type { SchemaProblem } from "../file/schema-problems.ts";

/** Of a value; rules never mean a key. */
export type RuleProblem = Omit<SchemaProblem, "part">;

export interface NamedEntry {
  readonly path: ValuePath;
  readonly item: { readonly name?: string | undefined };
}

export function sameNames(what: string, entries: readonly NamedEntry[]): RuleProblem[] {
  const firstPaths = new Map<string, ValuePath>();
  return entries.flatMap(({ path, item: { name } }): RuleProblem[] => {
    const first = name === undefined ? undefined : firstPaths.get(name);
    if (name !== undefined) firstPaths.set(name, first ?? path);
    if (first === undefined) return [];
    const message = `${what} ${shown(name)} is there twice, first at ${pathText(first)}`;
    return [{ path: [...path, "name"], value: name, message, remedy: "rename or remove one" }];
  });
}

/** `of` is the place of the search: the fleet, or a part of it. */
export function unknownName(
  what: string,
  { path, name, of = "the fleet" }: UnknownName,
  known: readonly string[],
): RuleProblem[] {
  if (known.includes(name)) return [];
  const names = [...new Set(known)];
  const near = nearestName(name, names);
  const some = names.length === 0 ? "there is none" : `known are ${names.slice(0, 10).join(", ")}`;
  const remedy = near === undefined ? some : `did you mean ${near}?`;
  return [{ path, value: name, message: `${of} has no ${what} ${shown(name)}`, remedy }];
}

interface UnknownName {
  readonly path: ValuePath;
  readonly name: string;
  readonly of?: string;
}
