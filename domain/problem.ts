/**
 * @file What is wrong with a text that came from outside: where, the value, and what would be right.
 *
 * A parser reports all problems of a text at once; a broken text can have thousands, so a list is cut
 * at `MAX_PROBLEMS` and its last entry counts the rest.
 */

export interface Problem {
  /** Counted from 1. */
  readonly line: number;
  /** Counted from 1, in characters of the line; absent when the whole line is meant. */
  readonly column?: number;
  /** What was found, what was needed. */
  readonly message: string;
  readonly remedy: string;
}

export interface Refused {
  readonly kind: "refused";
  readonly problems: readonly Problem[];
}

/** More than this helps nobody: the cause is in the first few. */
export const MAX_PROBLEMS = 20;

/** Refuses with the first problems by line; further ones are counted. */
export function refuse(problems: readonly Problem[]): Refused {
  const sorted = [...problems].sort((a, b) => a.line - b.line || (a.column ?? 0) - (b.column ?? 0));
  const next = sorted[MAX_PROBLEMS];
  if (next === undefined) return { kind: "refused", problems: sorted };
  const rest = {
    line: next.line,
    message: `and ${sorted.length - MAX_PROBLEMS} more problems from here on`,
    remedy: "mend the first ones; the others often follow from them",
  };
  return { kind: "refused", problems: [...sorted.slice(0, MAX_PROBLEMS), rest] };
}

/** `file:line:column: message; remedy`, as compilers and editors have it. */
export function problemText(source: string, problem: Problem): string {
  const place =
    problem.column === undefined ? `${problem.line}` : `${problem.line}:${problem.column}`;
  return `${source}:${place}: ${problem.message}; ${problem.remedy}`;
}

/** A value from outside, safe to print: escaped and cut at 40 characters. */
export function quoted(value: string): string {
  return JSON.stringify(value.length > 40 ? `${value.slice(0, 37)}...` : value);
}
