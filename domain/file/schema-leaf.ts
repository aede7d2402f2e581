/**
 * @file The leaves of the file schemas: each parses one value exactly and describes it for editors.
 *
 * A leaf is a zod schema with its JSON Schema written beside its reader, because an error must say what to write instead, which
 * zod's own checks cannot. Maps and lists are zod's own (`z.strictObject`, `z.array`).
 */

import { z } from "zod";
import {
  DURATION,
  GPU_TIME,
  LATENCY,
  MEMORY,
  MESSAGE_SIZE,
  POWER,
  PRICE,
  RATE,
} from "../values/dimensions.ts";
import {
  parseDuration,
  parseGpuTime,
  parseLatency,
  parseMemory,
  parseMessageSize,
  parsePower,
  parsePrice,
  parseRate,
} from "../values/dimensions.ts";
import { shown } from "../values/file-problem.ts";
import { nearestName } from "../values/nearest-name.ts";
import {
  quantityPattern,
  type Dimension,
  type Reading,
  type RefusedValue,
} from "../values/quantity.ts";
import type { Gbps, GiB, Ms, Watts } from "../values/units.ts";

/** The description of a value for editors, as JSON Schema. */
export interface LeafSchema {
  readonly description: string;
  readonly type?: "string" | "integer" | "number" | "boolean" | "object";
  readonly examples?: readonly unknown[];
  readonly [keyword: string]: unknown;
}

export const refused = (message: string, remedy: string): RefusedValue => ({
  kind: "refused",
  message,
  remedy,
});

/** `Input` is the type that programs write; the reader checks any value. */
export function leaf<Input, Output>(schema: LeafSchema, read: (value: unknown) => Reading<Output>) {
  return z
    .custom<Input>()
    .transform((value: unknown, context): Output => {
      const reading = read(value);
      if (reading.kind === "read") return reading.value;
      const message = value === undefined ? "missing" : reading.message;
      context.addIssue({ code: "custom", message, params: { remedy: reading.remedy } });
      return z.NEVER;
    })
    .meta({ ...schema });
}

export interface EntryReaders<Value> {
  /** The key as it is kept. */
  readonly readKey: (key: string) => Reading<string>;
  readonly readValue: (value: unknown) => Reading<Value>;
}

/** A map with keys of the author's choice; hand-written, because zod's records silently drop a key such as `__proto__`. */
export function mapLeaf<Value>(schema: LeafSchema, { readKey, readValue }: EntryReaders<Value>) {
  type Entries = Readonly<Record<string, Value>>;
  return z
    .custom<Entries>()
    .transform((value: unknown, context): Entries => {
      const refuse = (path: string[], { message, remedy }: RefusedValue): void =>
        context.addIssue({ code: "custom", path, message, params: { remedy } });
      if (typeof value !== "object" || value === null || Array.isArray(value)) {
        const remedy = `write a map such as ${JSON.stringify(schema.examples?.[0] ?? {})}`;
        refuse([], refused(`${shown(value)} is not a map`, remedy));
        return z.NEVER;
      }
      const entries = new Map<string, Value>();
      for (const [key, inside] of Object.entries(value)) {
        const name = readKey(key);
        const reading = readValue(inside);
        if (name.kind === "refused") refuse([key], name);
        if (reading.kind === "refused") refuse([key], reading);
        if (name.kind === "read" && reading.kind === "read") entries.set(name.value, reading.value);
      }
      return Object.fromEntries(entries);
    })
    .meta({ ...schema, type: "object" });
}

export interface Bounds {
  readonly min: number;
  readonly max: number;
}

export function wholeNumber({ min, max, ...rest }: LeafSchema & Bounds) {
  const schema: LeafSchema = { ...rest, type: "integer", minimum: min, maximum: max };
  return leaf<number, number>(schema, (value) => readWholeNumber(value, { min, max }));
}

export function readWholeNumber(value: unknown, { min, max }: Bounds): Reading<number> {
  const remedy = `write a whole number from ${min} to ${max}`;
  if (typeof value !== "number") return refused(...notNumber("a whole number", value, remedy));
  if (!Number.isInteger(value)) return refused(`${value} is not a whole number`, remedy);
  if (value < min) return refused(`${value} is too small`, remedy);
  if (value > max) return refused(`${value} is too large`, remedy);
  // Negative zero counts as zero.
  return { kind: "read", value: value + 0 };
}

export function positiveNumber({ max, ...rest }: LeafSchema & { readonly max: number }) {
  const remedy = `write a number above 0, at most ${max}`;
  const schema: LeafSchema = { ...rest, type: "number", exclusiveMinimum: 0, maximum: max };
  return leaf<number, number>(schema, (value) => {
    if (typeof value !== "number") return refused(...notNumber("a number", value, remedy));
    if (!(value > 0 && value <= max)) return refused(`${value} is out of range`, remedy);
    return { kind: "read", value };
  });
}

/** From 0 up to `max`, both included. */
export function share({ max, ...rest }: LeafSchema & { readonly max: number }) {
  const remedy = `write a number from 0 to ${max}`;
  const schema: LeafSchema = { ...rest, type: "number", minimum: 0, maximum: max };
  return leaf<number, number>(schema, (value) => {
    if (typeof value !== "number") return refused(...notNumber("a number", value, remedy));
    if (!(value >= 0 && value <= max)) return refused(`${value} is out of range`, remedy);
    return { kind: "read", value: value + 0 };
  });
}

export function flag(description: string) {
  return leaf<boolean, boolean>({ description, type: "boolean" }, (value) =>
    typeof value === "boolean"
      ? { kind: "read", value }
      : refused(`${shown(value)} is not true or false`, "write true or false"),
  );
}

export function choice<const Word extends string>(words: readonly Word[], schema: LeafSchema) {
  return leaf<Word, Word>({ ...schema, type: "string", enum: words }, (value) => {
    const word = words.find((each) => each === value);
    if (word !== undefined) return { kind: "read", value: word };
    const near = typeof value === "string" ? nearestName(value, words) : undefined;
    return refused(
      `${shown(value)} is unknown`,
      near === undefined ? `write one of ${words.join(", ")}` : `did you mean ${near}?`,
    );
  });
}

/** A name: short, of few characters, so that it fits into ids, labels and paths. */
export interface WordRule {
  /** With its article: `a tenant`. */
  readonly what: string;
  /** Of the whole word, without anchors. */
  readonly pattern: string;
  /** The pattern in words. */
  readonly characters: string;
  readonly maxLength: number;
}

export function word(rule: WordRule, schema: LeafSchema) {
  const { pattern, maxLength } = rule;
  const whole: LeafSchema = { ...schema, type: "string", pattern: `^(${pattern})$`, maxLength };
  return leaf<string, string>(whole, (value) => readWord(value, rule));
}

export function readWord(value: unknown, rule: WordRule): Reading<string> {
  const { what, pattern, characters, maxLength } = rule;
  const remedy = `write a name of ${characters}`;
  if (typeof value !== "string") return refused(...notText(value, remedy));
  if (value === "") return refused("empty", remedy);
  if (value.length > maxLength) {
    return refused(`${shown(value)} has ${value.length} characters`, `write at most ${maxLength}`);
  }
  const isWord = new RegExp(`^(?:${pattern})$`).test(value);
  return isWord
    ? { kind: "read", value }
    : refused(`${shown(value)} is no name for ${what}`, remedy);
}

/** Free text for an argument, a variable or a path: not empty, and without NUL, which no process can be given. */
export function text({ maxLength, ...rest }: LeafSchema & { readonly maxLength: number }) {
  const schema: LeafSchema = { ...rest, type: "string", minLength: 1, maxLength };
  const example = rest.examples?.[0];
  return leaf<string, string>(schema, (value) => {
    if (value === "") return refused("empty", "write some text, or leave the key out");
    const reading = readText(value, maxLength);
    if (typeof value === "string" || reading.kind === "read" || example === undefined)
      return reading;
    return { ...reading, remedy: `write text such as ${example}` };
  });
}

/** Also accepts empty text: an argument or a variable may be empty. */
export function readText(value: unknown, maxLength: number): Reading<string> {
  if (typeof value !== "string") return refused(...notText(value, "write text"));
  if (value.length > maxLength)
    return refused(`text of ${value.length} characters`, `write at most ${maxLength}`);
  if (value.includes("\0")) return refused("text with a NUL character", "leave the NUL out");
  return { kind: "read", value };
}

export function absolutePath(schema: LeafSchema) {
  return leaf<string, string>(
    { ...schema, type: "string", pattern: "^/", maxLength: 4096 },
    (value) => {
      const reading = readText(value, 4096);
      if (reading.kind === "refused" || reading.value.startsWith("/")) return reading;
      return refused(
        `${shown(value)} does not begin with /`,
        "write the whole path, as the hosts see it",
      );
    },
  );
}

export interface QuantityRule extends LeafSchema {
  /** Whether 0 makes sense; refused otherwise. */
  readonly isZeroAllowed?: boolean;
}

export const duration = (rule: QuantityRule) => quantity<Ms>(DURATION, parseDuration, rule);
export const latency = (rule: QuantityRule) => quantity<Ms>(LATENCY, parseLatency, rule);
export const memory = (rule: QuantityRule) => quantity<GiB>(MEMORY, parseMemory, rule);
/** In bytes. */
export const messageSize = (rule: QuantityRule) =>
  quantity<number>(MESSAGE_SIZE, parseMessageSize, rule);
export const rate = (rule: QuantityRule) => quantity<Gbps>(RATE, parseRate, rule);
export const power = (rule: QuantityRule) => quantity<Watts>(POWER, parsePower, rule);
export const price = (rule: QuantityRule) => quantity<number>(PRICE, parsePrice, rule);
export const gpuTime = (rule: QuantityRule) => quantity<number>(GPU_TIME, parseGpuTime, rule);

function quantity<T extends number>(
  dimension: Dimension,
  read: (value: unknown) => Reading<T>,
  { isZeroAllowed = false, ...rest }: QuantityRule,
) {
  const schema: LeafSchema = { ...rest, type: "string", pattern: quantityPattern(dimension) };
  return leaf<string, T>(schema, (value) => {
    const reading = read(value);
    if (reading.kind === "refused" || reading.value > 0 || isZeroAllowed) return reading;
    return refused(
      `${shown(value)} is nothing`,
      `write ${dimension.what} such as ${dimension.example}`,
    );
  });
}

/** Message and remedy for a value that should have been text. */
function notText(value: unknown, remedy: string): [string, string] {
  const isUnquoted = typeof value === "number" || typeof value === "boolean";
  if (!isUnquoted) return [`${shown(value)} is not text`, remedy];
  return [`${shown(value)} is a ${typeof value}, not text`, `put it in quotes: "${value}"`];
}

/** Message and remedy for a value that should have been a number. */
function notNumber(what: string, value: unknown, remedy: string): [string, string] {
  const isQuoted = typeof value === "string" && /^\d{1,15}$/.test(value);
  return [`${shown(value)} is not ${what}`, isQuoted ? `write ${value} without quotes` : remedy];
}
