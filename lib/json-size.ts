/**
 * @file How large a value is as JSON, and how it begins, without writing more of it than is asked for.
 *
 * For values from outside, which may be huge, deep or cyclic. Cost: O(the limit), whatever the value.
 */

import { utf8Length } from "./utf8.ts";

/** Deeper than anything that is meant. */
export const MAX_JSON_DEPTH = 64;

/**
 * About the bytes of its JSON in UTF-8, without those that escapes add; any number above `mostBytes` once it is larger, infinite when it is
 * deeper than `MAX_JSON_DEPTH`.
 */
export function jsonSizeUpTo(value: unknown, mostBytes: number, depth = 0): number {
  if (depth > MAX_JSON_DEPTH) return Infinity;
  if (typeof value === "string")
    return value.length > mostBytes ? value.length : utf8Length(value) + 2;
  if (typeof value !== "object" || value === null) return String(value).length;
  // Nobody sends such values on purpose; as JSON each of their bytes would be a key with a number.
  if (ArrayBuffer.isView(value)) return 2 + value.byteLength * 4;
  let bytes = 2;
  if (Array.isArray(value)) {
    for (const each of value) {
      bytes += 1 + jsonSizeUpTo(each, mostBytes - bytes, depth + 1);
      if (bytes > mostBytes) return bytes;
    }
    return bytes;
  }
  for (const name of Object.keys(value)) {
    bytes += utf8Length(name) + 4;
    if (bytes <= mostBytes)
      bytes += jsonSizeUpTo(Reflect.get(value, name), mostBytes - bytes, depth + 1);
    if (bytes > mostBytes) return bytes;
  }
  return bytes;
}

/** Whether arrays and maps lie in each other in more than so many levels. Cost: O(value), memory of its widest level; no stack. */
export function isDeeperThan(value: unknown, levels: number): boolean {
  let level = containersIn([value]);
  for (let depth = 0; level.length > 0; depth += 1) {
    if (depth >= levels) return true;
    level = level.flatMap((each) => containersIn(Object.values(each)));
  }
  return false;
}

const containersIn = (values: readonly unknown[]): readonly object[] =>
  values.filter(
    (value): value is object =>
      typeof value === "object" && value !== null && !ArrayBuffer.isView(value),
  );

/** The first characters of its JSON, for people: where it ends too early, it is no JSON. */
export function jsonStart(value: unknown, mostChars: number): string {
  const parts: string[] = [];
  write(value, { parts, leftChars: mostChars }, 0);
  return parts.join("").slice(0, mostChars);
}

interface Page {
  readonly parts: string[];
  leftChars: number;
}

/** Writes until the page is full. */
function write(value: unknown, page: Page, depth: number): void {
  if (page.leftChars <= 0) return;
  if (depth > MAX_JSON_DEPTH) return put(page, "…");
  if (typeof value === "string") return put(page, JSON.stringify(value.slice(0, page.leftChars)));
  if (typeof value !== "object" || value === null)
    return put(page, value === undefined ? "null" : String(value));
  if (ArrayBuffer.isView(value)) return put(page, `"${value.byteLength} bytes"`);
  const isList = Array.isArray(value);
  put(page, isList ? "[" : "{");
  const names: readonly (string | number)[] = isList
    ? value.slice(0, page.leftChars).map((_, at) => at)
    : Object.keys(value);
  for (const [at, name] of names.entries()) {
    if (page.leftChars <= 0) return;
    if (at > 0) put(page, ",");
    if (typeof name === "string") put(page, `${JSON.stringify(name.slice(0, page.leftChars))}:`);
    write(Reflect.get(value, name), page, depth + 1);
  }
  put(page, isList ? "]" : "}");
}

function put(page: Page, text: string): void {
  page.parts.push(text);
  page.leftChars -= text.length;
}
