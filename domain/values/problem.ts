/**
 * @file A problem of an external text: its place, the value, and the remedy.
 *
 * A parser reports all problems of a text at once; a broken text can have thousands, so a list is cut at `MAX_PROBLEMS` and its
 * last entry counts the rest.
 */

import { formatProblem, harmless } from "./file-problem.ts";

export interface Problem {
  /** Counted from 1. */
  readonly line: number;
  /** Counted from 1, in characters of the line; absent when the whole line is meant. */
  readonly column?: number;
  /** The found value and the needed one. */
  readonly message: string;
  readonly remedy: string;
}

export interface Refused {
  readonly kind: "refused";
  /** Name of the text: a file path, or the host that it came from. */
  readonly source: string;
  readonly problems: readonly Problem[];
}

/** More problems are not useful; the cause is among the first. */
export const MAX_PROBLEMS = 20;

export function refuse(source: string, problems: readonly Problem[]): Refused {
  return { kind: "refused", source, problems: firstProblems(problems) };
}

/** The first problems by place; the last entry of a longer list counts the rest. */
export function firstProblems(problems: readonly Problem[]): readonly Problem[] {
  const sorted = [...problems].sort((a, b) => a.line - b.line || (a.column ?? 0) - (b.column ?? 0));
  const next = sorted[MAX_PROBLEMS];
  if (next === undefined) return sorted;
  const rest = {
    line: next.line,
    message: `and ${sorted.length - MAX_PROBLEMS} more problems from here on`,
    remedy: "mend the first ones; the others often follow from them",
  };
  return [...sorted.slice(0, MAX_PROBLEMS), rest];
}

/** One harmless line, in the form that job and fleet files have. */
export function problemText(source: string, problem: Problem): string {
  return formatProblem({ file: source, path: "", value: "", ...problem });
}

/** A line of someone's log inside a message: long enough to keep NCCL's reason whole. */
export function quotedLine(text: string): string {
  return `"${harmless(text.length <= 160 ? text : `${text.slice(0, 157)}...`)}"`;
}
