/** @file Parsers of option values; an error says what is accepted. */

import { OrbweaverError } from "../../domain/values/failure.ts";

/** A whole number of at least `min`. */
export function wholeNumber(flag: string, min: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (/^\d+$/.test(text) && Number.isSafeInteger(value) && value >= min) return value;
    throw new OrbweaverError(
      "BAD_INPUT",
      `${flag} ${JSON.stringify(text)} is not a whole number from ${String(min)} on. Write one, e.g. ${flag} ${String(Math.max(min, 8))}.`,
    );
  };
}

/** `KEY=VALUE`, collected over several uses of the flag. */
export function keyValue(
  flag: string,
): (text: string, former: ReadonlyMap<string, string> | undefined) => ReadonlyMap<string, string> {
  return (text, former) => {
    const at = text.indexOf("=");
    if (at > 0) return new Map([...(former ?? []), [text.slice(0, at), text.slice(at + 1)]]);
    throw new OrbweaverError(
      "BAD_INPUT",
      `${flag} ${JSON.stringify(text)} is not KEY=VALUE. Write e.g. ${flag} SEED=1.`,
    );
  };
}

/** Values separated by commas, collected over several uses of the flag. */
export function nameList(text: string, former: readonly string[] | undefined): readonly string[] {
  return [...(former ?? []), ...text.split(",").filter((name) => name !== "")];
}
