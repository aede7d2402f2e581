/** @file Parsers of option values; an error says what is accepted. */

import { isIP } from "node:net";
import { durationText, parseDuration } from "../../domain/values/dimensions.ts";
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

/** `30m`, in milliseconds. */
export function durationMs(
  flag: string,
  { leastMs, mostMs }: { readonly leastMs: number; readonly mostMs: number },
): (text: string) => number {
  return (text) => {
    const reading = parseDuration(text);
    if (reading.kind === "refused")
      throw new OrbweaverError("BAD_INPUT", `${flag} ${text}: ${reading.message}`);
    const { value } = reading;
    if (value >= leastMs && value <= mostMs) return value;
    throw new OrbweaverError(
      "BAD_INPUT",
      `${flag} ${text}: write a time from ${durationText(leastMs)} to ${durationText(mostMs)}.`,
    );
  };
}

/** `ADDRESS:PORT` of this machine, as a literal address: `127.0.0.1:9464`, `[::1]:9464`. */
export function addressAndPort(flag: string): (text: string) => string {
  return (text) => {
    const [, six, four, port] = /^(?:\[(.+)\]|([\d.]+)):(\d{1,5})$/.exec(text) ?? [];
    if (isIP(six ?? four ?? "") !== 0 && Number(port) <= 65_535) return text;
    throw new OrbweaverError(
      "BAD_INPUT",
      `${flag} ${JSON.stringify(text)} is not ADDRESS:PORT. Write an address of this machine, e.g. ${flag} 127.0.0.1:9464.`,
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

/** Numbers of GPUs, from 0 on, separated by commas and collected over several uses of the flag. */
export function gpuList(text: string, former: readonly number[] | undefined): readonly number[] {
  const numbers = text.split(",").map((one) => wholeNumber("--gpu", 0)(one.trim()));
  return [...new Set([...(former ?? []), ...numbers])].sort((a, b) => a - b);
}

/** Values separated by commas, collected over several uses of the flag. */
export function nameList(text: string, former: readonly string[] | undefined): readonly string[] {
  return [...(former ?? []), ...text.split(",").filter((name) => name !== "")];
}
