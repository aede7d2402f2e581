/**
 * @file Parses an amount with its unit, `16 GiB` or `1h30m`, into whole base units, and prints it.
 *
 * Exact: the digits are scaled by integer arithmetic, and a result that is not a whole number of base units is refused, so that
 * a printed amount reads back unchanged. A bare number is refused, because its unit is unknown. The dimensions are in
 * `dimensions.ts`.
 */

import { shown } from "./file-problem.ts";

export type Reading<T> = { readonly kind: "read"; readonly value: T } | RefusedValue;

export interface RefusedValue {
  readonly kind: "refused";
  /** The problem of the value, without its place. */
  readonly message: string;
  /** The remedy, without a full stop. */
  readonly remedy: string;
}

export interface Dimension {
  /** With its article: `a duration`. */
  readonly what: string;
  /** Base units in each unit, largest first. */
  readonly baseByUnit: ReadonlyMap<string, bigint>;
  /** The units that amounts are printed in, largest first. */
  readonly printUnits: readonly string[];
  /** Suggested where a number comes without a unit. */
  readonly usualUnit: string;
  readonly example: string;
  /** The largest amount, as text of this dimension. */
  readonly most: string;
  /** The smallest step between amounts, as text; absent when it is the base unit. */
  readonly step?: string;
  /** Accepts and prints several parts, `1h30m`. */
  readonly isCompound: boolean;
  /** The text between number and unit in print. */
  readonly gap: "" | " ";
}

/** More digits than any amount within the limits needs. */
const MAX_CHARS = 60;

/** The amount in base units; never negative. */
export function readQuantity(value: unknown, dimension: Dimension): Reading<bigint> {
  const { what, example, usualUnit, gap } = dimension;
  const refuse = (message: string, remedy: string): RefusedValue => ({
    kind: "refused",
    message,
    remedy,
  });
  const suggestion = `write ${what} such as ${example}`;
  if (isNegative(value)) return refuse(`${shown(value)} is negative`, suggestion);
  if (typeof value === "number" || (typeof value === "string" && isBareNumber(value))) {
    const digits = String(value).trim();
    const remedy = /^[\d.]+$/.test(digits) ? `write ${digits}${gap}${usualUnit}` : suggestion;
    return refuse(`${shown(value)} has no unit`, remedy);
  }
  if (typeof value !== "string" || value.length > MAX_CHARS) {
    return refuse(`${shown(value)} is not ${what}`, suggestion);
  }
  const amount = readParts(value, dimension);
  if (amount.kind === "refused") return amount;
  const { numerator, denominator } = amount.value;
  const step = dimension.step === undefined ? 1n : baseOf(dimension.step, dimension);
  if (numerator % (denominator * step) !== 0n) {
    const finest = dimension.step ?? `1${gap}${[...dimension.baseByUnit.keys()].at(-1) ?? ""}`;
    return refuse(`${shown(value)} is finer than ${finest}`, `write a multiple of ${finest}`);
  }
  const base = numerator / denominator;
  if (base > baseOf(dimension.most, dimension)) {
    return refuse(
      `${shown(value)} is more than ${dimension.most}`,
      `write at most ${dimension.most}`,
    );
  }
  return { kind: "read", value: base };
}

/** The shortest of the exact texts; of two equally short ones that with the larger unit. */
export function quantityText(base: bigint, dimension: Dimension): string {
  const { printUnits, gap, usualUnit } = dimension;
  if (base === 0n) return `0${gap}${usualUnit}`;
  if (dimension.isCompound) return compoundText(base, dimension);
  let best: string | undefined;
  for (const unit of printUnits) {
    const number = numberText(base, dimension.baseByUnit.get(unit) ?? 1n);
    if (number === undefined) continue;
    const text = `${number}${gap}${unit}`;
    if (best === undefined || text.length < best.length) best = text;
  }
  if (best === undefined) throw new RangeError(`${base} cannot be printed as ${dimension.what}`);
  return best;
}

/** The texts that `readQuantity` may accept, for JSON Schema; limits and steps are not in it. */
export function quantityPattern({ baseByUnit, isCompound }: Dimension): string {
  const part = `\\d+(\\.\\d+)?\\s*(${[...baseByUnit.keys()].join("|")})\\s*`;
  return isCompound ? `^\\s*(${part})+$` : `^\\s*${part}$`;
}

interface Amount {
  readonly numerator: bigint;
  /** A power of ten. */
  readonly denominator: bigint;
}

/** `1h 30m` or `16 GiB` as a sum of number and unit pairs; each unit at most once, larger ones first. */
function readParts(text: string, dimension: Dimension): Reading<Amount> {
  const { what, example, baseByUnit, isCompound } = dimension;
  const parts = [...text.matchAll(/\s*(\d+)(?:\.(\d+))?\s*([A-Za-zµμ/]+(?:-[A-Za-z]+)*)\s*/gy)];
  const length = parts.reduce((sum, part) => sum + part[0].length, 0);
  if (parts.length === 0 || length !== text.length || (parts.length > 1 && !isCompound)) {
    return {
      kind: "refused",
      message: `${shown(text)} is not ${what}`,
      remedy: `write ${what} such as ${example}`,
    };
  }
  const denominator = 10n ** BigInt(Math.max(...parts.map((part) => part[2]?.length ?? 0)));
  let numerator = 0n;
  let lastUnit: bigint | undefined;
  for (const [whole, digits = "", fraction = "", unitAsWritten = ""] of parts) {
    const unit = unitAsWritten.replace(/[µμ]/g, "u");
    const base = baseByUnit.get(unit);
    if (base === undefined) return unknownUnit(whole, unitAsWritten, dimension);
    if (lastUnit !== undefined && base >= lastUnit) {
      const message = `${shown(text)} does not go from larger to smaller units`;
      return { kind: "refused", message, remedy: `write ${what} such as ${example}` };
    }
    lastUnit = base;
    const scaled = BigInt(digits + fraction) * (denominator / 10n ** BigInt(fraction.length));
    numerator += scaled * base;
  }
  return { kind: "read", value: { numerator, denominator } };
}

function unknownUnit(part: string, unit: string, dimension: Dimension): RefusedValue {
  const units = [...dimension.baseByUnit.keys()];
  const lower = unit.toLowerCase();
  // `gib` and `Gi` mean GiB, `min` and `minutes` mean m, `msec` means ms: the longest unit that begins the word.
  const begins = units.filter((known) => lower.startsWith(known.toLowerCase()));
  const meant =
    units.find((known) => known.toLowerCase() === lower) ??
    begins.sort((a, b) => b.length - a.length)[0] ??
    units.find((known) => known.toLowerCase().startsWith(lower));
  const message = `unit ${shown(unit)} is unknown`;
  if (meant === undefined) {
    return {
      kind: "refused",
      message,
      remedy: `units of ${dimension.what.replace(/^an? /, "")} are ${units.join(", ")}`,
    };
  }
  const number = /[\d.]+/.exec(part)?.[0] ?? "";
  return { kind: "refused", message, remedy: `write ${number}${dimension.gap}${meant}` };
}

/** Base units of a text that belongs to this program. */
function baseOf(text: string, dimension: Dimension): bigint {
  const amount = readParts(text, dimension);
  if (amount.kind === "refused") throw new RangeError(`${text} is not ${dimension.what}`);
  return amount.value.numerator / amount.value.denominator;
}

function compoundText(base: bigint, { baseByUnit, printUnits, gap, what }: Dimension): string {
  let rest = base;
  let text = "";
  for (const unit of printUnits) {
    const size = baseByUnit.get(unit) ?? 1n;
    if (rest >= size) text += `${rest / size}${gap}${unit}`;
    rest %= size;
  }
  if (rest !== 0n) throw new RangeError(`${base} cannot be printed as ${what}`);
  return text;
}

/** `base / unit` as a whole number, or as a decimal one where the unit is a power of ten; else nothing. */
function numberText(base: bigint, unit: bigint): string | undefined {
  const rest = base % unit;
  if (rest === 0n) return `${base / unit}`;
  if (!isPowerOfTen(unit)) return undefined;
  const places = String(unit).length - 1;
  return `${base / unit}.${String(rest).padStart(places, "0").replace(/0+$/, "")}`;
}

const isPowerOfTen = (value: bigint): boolean => /^10*$/.test(String(value));

const isNegative = (value: unknown): boolean =>
  typeof value === "number" ? value < 0 : typeof value === "string" && /^\s*[-−]\s*\d/.test(value);

const isBareNumber = (text: string): boolean =>
  text.length <= MAX_CHARS && /^\s*[-+−]?\d[\d_.]*(e[-+]?\d+)?\s*$/i.test(text);
