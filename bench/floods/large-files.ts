/** @file Job files of about a megabyte, which no client of ours sends: thousands of unknown keys, deep nesting, one long text. */

import { ATTACKER } from "./flood.ts";

const MANY_KEYS = 100_000;
/** As deep as `JSON.stringify` of a client goes. */
const DEPTH = 4_000;
const TEXT_BYTES = 1_000_000;

const FRAME = {
  name: "large",
  tenant: ATTACKER,
  gang: { gpus: 1 },
  run: { command: ["true"] },
} as const;

/** Shapes in turn. */
export function largeJobFile(index: number): unknown {
  switch (index % 4) {
    case 0:
      return { ...FRAME, ...Object.fromEntries(numbers(MANY_KEYS).map((key) => [`k${key}`, 0])) };
    case 1:
      return { ...FRAME, run: { ...FRAME.run, env: nested(DEPTH) } };
    case 2:
      return { ...FRAME, run: { command: ["true", "x".repeat(TEXT_BYTES)] } };
    default:
      return { ...FRAME, constraints: { clusters: numbers(MANY_KEYS).map((at) => `c${at}`) } };
  }
}

function nested(depth: number): unknown {
  let value: unknown = 0;
  for (let level = 0; level < depth; level += 1) value = [value];
  return value;
}

const numbers = (count: number): readonly number[] =>
  Array.from({ length: count }, (_, index) => index);
