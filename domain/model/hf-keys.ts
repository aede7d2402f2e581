/**
 * @file The keys of a `config.json` of Hugging Face Transformers by their kinds: counts, numbers, claims, words, and rotations that are stretched.
 *
 * A value that is no such thing is a problem with the key and a remedy, and reads as something harmless. Sizes above `MOST` are refused: they are no
 * model.
 */

import type { TransformerShape } from "./transformer-shape.ts";

const MOST = 10_000_000;

export interface KeyProblem {
  readonly key: string;
  readonly message: string;
  readonly remedy: string;
}

export const shownValue = (value: unknown): string =>
  value === undefined ? "missing" : JSON.stringify(value).slice(0, 60);

export interface Reader {
  /** The first of the keys that is there; without any of them the fallback, which may be none. */
  readonly count: (keys: string, fallback?: number, most?: number) => number;
  readonly number: (key: string, fallback: number) => number;
  readonly claim: (key: string, fallback: boolean) => boolean;
  readonly word: (key: string, fallback: string) => string;
  /** Whether it is missing, null or a list of nothing. */
  readonly isEmpty: (key: string) => boolean;
  readonly ropeScaling: () => TransformerShape["ropeScaling"];
  /** So many positions with the rotations as they are stretched. */
  readonly stretched: (positions: number) => number;
  readonly refuse: (key: string, wanted: string) => void;
}

interface Rope {
  readonly kind: string;
  readonly factor: number;
  /** Positions of pre-training. */
  readonly original?: number;
}

/** Kinds of stretched rotations whose models state the positions after it. */
const STRETCHED_ALREADY: ReadonlySet<string> = new Set([
  "default",
  "llama3",
  "longrope",
  "mrope",
  "su",
]);

/** Notes the keys that it looks at. */
export function readerOf(
  found: Readonly<Record<string, unknown>>,
  { problems, keys }: { readonly problems: KeyProblem[]; readonly keys: Set<string> },
): Reader {
  const wrong = (key: string, wanted: string): void => {
    const message = `${key} is ${shownValue(found[key])}`;
    problems.push({ key, message, remedy: `give ${wanted}` });
  };
  const isThere = (key: string): boolean => {
    keys.add(key);
    return found[key] !== undefined && found[key] !== null;
  };
  const rope = (): Rope | undefined => {
    keys.add("rope_scaling");
    const value = found["rope_scaling"];
    if (typeof value !== "object" || value === null) return undefined;
    const entries = new Map(Object.entries(value));
    const kind = entries.get("rope_type") ?? entries.get("type");
    const [factor, original] = [
      entries.get("factor"),
      entries.get("original_max_position_embeddings"),
    ];
    return typeof kind === "string" && typeof factor === "number"
      ? { kind, factor, ...(typeof original === "number" && { original }) }
      : undefined;
  };
  return {
    count: (keys, fallback, most = MOST) => {
      const [first = "", ...others] = keys.split(" ");
      const key = [first, ...others].find(isThere);
      if (key === undefined && fallback !== undefined) return fallback;
      const value = found[key ?? first];
      if (typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= most)
        return value;
      wrong(key ?? first, `a whole number up to ${most}`);
      return 1;
    },
    number: (key, fallback) => {
      const value = found[key];
      if (!isThere(key)) return fallback;
      if (typeof value === "number" && value > 0 && Number.isFinite(value)) return value;
      wrong(key, "a positive number");
      return fallback;
    },
    claim: (key, fallback) => {
      const value = found[key];
      if (!isThere(key)) return fallback;
      if (typeof value === "boolean") return value;
      wrong(key, "true or false");
      return fallback;
    },
    word: (key, fallback) => {
      keys.add(key);
      const value = found[key];
      return typeof value === "string" ? value : fallback;
    },
    isEmpty: (key) => {
      const value = found[key];
      return !isThere(key) || (Array.isArray(value) && value.length === 0);
    },
    refuse: wrong,
    ropeScaling: () => {
      const { kind, factor } = rope() ?? {};
      return kind === undefined || factor === undefined ? undefined : { kind, factor };
    },
    stretched: (positions) => {
      const { kind = "default", factor = 1, original = positions } = rope() ?? {};
      if (STRETCHED_ALREADY.has(kind)) return positions;
      const before = kind === "yarn" ? original : positions;
      return Math.max(positions, Math.floor(before * factor));
    },
  };
}
