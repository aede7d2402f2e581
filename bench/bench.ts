/**
 * @file What a bench is: a name, its sizes, and a run that gives bars.
 *
 * A bench is one file (`bench/<name>.ts`) with one line in `registry.ts`; everything that it needs to run is imported when it
 * runs, because the command loads this list at every start.
 */

import type { Bar } from "./bar.ts";

export interface Bench {
  readonly name: string;
  /** One line for lists. */
  readonly summary: string;
  readonly description: string;
  readonly options: readonly BenchOption[];
  readonly examples: readonly (readonly [commandLine: string, what: string])[];
  /** It writes figures, so `--plot DIR` is an option. */
  readonly draws?: true;
  readonly run: (request: BenchRequest) => Promise<BenchAnswer>;
}

export type BenchOption =
  | {
      readonly kind: "size";
      /** `jobs` is the option `--jobs <n>`. */
      readonly name: string;
      readonly what: string;
      readonly usual: number;
      readonly least: number;
    }
  | { readonly kind: "flag"; readonly name: string; readonly what: string }
  | { readonly kind: "text"; readonly name: string; readonly value: string; readonly what: string }
  | {
      readonly kind: "choice";
      readonly name: string;
      readonly what: string;
      readonly choices: readonly string[];
    }
  | {
      /** A word without a flag, which must be given. */
      readonly kind: "argument";
      readonly name: string;
      readonly what: string;
      readonly choices: readonly string[];
    };

/** A size among the options; without `least` it is 1 at least. */
export const size = (
  name: string,
  what: string,
  options: { readonly usual: number; readonly least?: number },
): BenchOption => ({ kind: "size", name, what, usual: options.usual, least: options.least ?? 1 });

export interface BenchRequest {
  readonly seed: number;
  /** The value of a size; its usual one when it was not given. */
  readonly size: (name: string) => number;
  /** Of a text or an argument. */
  readonly text: (name: string) => string | undefined;
  readonly flag: (name: string) => boolean;
  /** What was chosen; all choices when nothing was. */
  readonly chosen: (name: string) => readonly string[];
  readonly plotDir?: string;
  /** Progress, for people. */
  readonly say: (line: string) => void;
  /** Aborted by Ctrl-C: clean up and throw. */
  readonly interrupted: AbortSignal;
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** Figures side by side, printed before the bars; most have no bar of their own. */
export interface BenchTable {
  readonly title: string;
  readonly columns: readonly string[];
  /** The first cell of a row is its name; the others are figures. */
  readonly rows: readonly (readonly string[])[];
}

export interface BenchAnswer {
  readonly bars: readonly Bar[];
  readonly tables?: readonly BenchTable[];
  /** Further figures, for the JSON document only. */
  readonly details?: Readonly<Record<string, unknown>>;
}
