/**
 * @file Reads fields of a JSON value from any sender: each reader always returns a value of the right type, and records faults with their path.
 *
 * Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import { isFields } from "../../lib/fields.ts";

const MAX_ID_CHARACTERS = 1_000;

/** Undefined where there is none: a cycle, or nothing. */
export function jsonOf(value: unknown): string | undefined {
  try {
    return JSON.stringify(value);
  } catch {
    return undefined;
  }
}

/** A value on its way in. Readers answer a value of the right type in any case and note what was wrong. */
export interface Incoming {
  readonly value: unknown;
  readonly path: string;
  readonly problems: string[];
  /** The version of the fleet's rules. */
  readonly rules: number;
}

export function field(of: Incoming, name: string): Incoming {
  const { problems, rules } = of;
  const path = `${of.path}.${name}`;
  const isThere = isFields(of.value) && Object.hasOwn(of.value, name);
  return { value: isThere ? of.value[name] : undefined, path, problems, rules };
}

/** Only the first faults are told, so a list of wrong items costs no text for each. */
export const MAX_TOLD = 3;

export function wrong({ value, path, problems }: Incoming, wanted: string): void {
  if (problems.length >= MAX_TOLD) return;
  const found = jsonOf(value) ?? "nothing";
  problems.push(
    `${path} is ${found.length > 60 ? `${found.slice(0, 60)}…` : found}, not ${wanted}`,
  );
}

/** A field that is there, or none at all. */
export const optionally = <Name extends string, T>(
  name: Name,
  value: T | undefined,
): { readonly [name in Name]?: T } =>
  (value === undefined ? {} : { [name]: value }) as { readonly [name in Name]?: T }; // TypeScript widens computed keys

export function optional<T>(of: Incoming, read: (of: Incoming) => T): T | undefined {
  return of.value === undefined || of.value === null ? undefined : read(of);
}

export function list<T>(of: Incoming, read: (each: Incoming) => T): readonly T[] {
  if (Array.isArray(of.value)) {
    return of.value.map((value: unknown, at) => read({ ...of, value, path: `${of.path}[${at}]` }));
  }
  wrong(of, "a list");
  return [];
}

export function text(of: Incoming): string {
  if (typeof of.value === "string") return of.value;
  wrong(of, "a text");
  return "";
}

/** The stand-in for a wrong id is a valid one, because the brands' constructors throw; its entry is refused anyway. */
export function id(of: Incoming): string {
  const { value } = of;
  if (typeof value === "string" && /^\S+$/.test(value) && value.length <= MAX_ID_CHARACTERS)
    return value;
  wrong(of, "an id without white space");
  return "?";
}

export function count(of: Incoming, least: number, most: number = Number.MAX_SAFE_INTEGER): number {
  const { value } = of;
  if (typeof value === "number" && Number.isSafeInteger(value) && value >= least && value <= most)
    return value + 0;
  wrong(of, `a whole number from ${least}${most < Number.MAX_SAFE_INTEGER ? ` to ${most}` : ""}`);
  return least;
}

export function amount(of: Incoming, least = 0): number {
  // Plus zero: JSON knows no −0, so none may get into the ledger.
  if (typeof of.value === "number" && Number.isFinite(of.value) && of.value >= least)
    return of.value + 0;
  wrong(of, least === 0 ? "a number from 0 up" : "a number");
  return 0;
}

export function flag(of: Incoming): boolean {
  if (typeof of.value === "boolean") return of.value;
  wrong(of, "true or false");
  return false;
}
