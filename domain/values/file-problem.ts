/**
 * @file A problem of a job or fleet file: its place, its key, the value found, and the remedy.
 *
 * Values come from outside and may be hostile: whatever is shown is cut, and control, zero-width and bidirectional
 * characters are escaped, so that a message is always one harmless line.
 */

import { byCodeUnit } from "./ids.ts";

/** The way to a value: keys of maps and indices of lists. */
export type ValuePath = readonly (string | number)[];

export interface FileProblem {
  readonly file?: string;
  /** Counted from 1; absent when the value did not come from a text. */
  readonly line?: number;
  readonly column?: number;
  /** e.g. `run.command[0]`; empty for the file as a whole. */
  readonly path: string;
  /** The value as it is shown to people. */
  readonly value: string;
  readonly message: string;
  readonly remedy: string;
}

export interface RefusedFile {
  readonly kind: "refused";
  /** At least one, in the order of the text, at most `MAX_FILE_PROBLEMS` and one that counts the rest. */
  readonly problems: readonly FileProblem[];
}

/** A longer list is of no use; its last entry counts the rest. */
export const MAX_FILE_PROBLEMS = 100;

const MAX_SHOWN_CHARS = 60;
const MAX_LINE_CHARS = 400;

/** C0 and C1 controls, line and paragraph separators, zero-width and bidirectional characters, lone surrogates. */
const UNSAFE =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

/** `job.yaml:4:3 gang.gpus: -1 is too small; write a whole number from 1 to 100000`, always one line. */
export function formatProblem(problem: FileProblem): string {
  const { file, line, column, path, message, remedy } = problem;
  const place = [file === undefined ? [] : [harmless(file)], line ?? [], column ?? []]
    .flat()
    .join(":");
  const where = [place, path].filter((part) => part !== "").join(" ");
  return `${where === "" ? "" : `${where}: `}${message}; ${remedy}`;
}

/** Sorts by file in order of appearance, then by place and path. */
export function refuseFile(problems: readonly FileProblem[]): RefusedFile {
  const files = [...new Set(problems.map((problem) => problem.file))];
  const sorted = [...problems].sort(
    (a, b) =>
      files.indexOf(a.file) - files.indexOf(b.file) ||
      (a.line ?? 0) - (b.line ?? 0) ||
      (a.column ?? 0) - (b.column ?? 0) ||
      byCodeUnit(a.path, b.path),
  );
  const next = sorted[MAX_FILE_PROBLEMS];
  if (next === undefined) return { kind: "refused", problems: sorted };
  const rest = {
    ...next,
    path: "",
    value: "",
    message: `and ${sorted.length - MAX_FILE_PROBLEMS} more problems from here on`,
    remedy: "mend the first ones; the others often follow from them",
  };
  return { kind: "refused", problems: [...sorted.slice(0, MAX_FILE_PROBLEMS), rest] };
}

/** `gang.gpus`, `run.command[0]`, `env["A B"]`. */
export function pathText(path: ValuePath): string {
  const text = path
    .map((part, at) => {
      if (typeof part === "number") return `[${part}]`;
      if (/^[A-Za-z_*][A-Za-z0-9_*-]{0,59}$/.test(part)) return at === 0 ? part : `.${part}`;
      return `[${shown(part)}]`;
    })
    .join("");
  return text.length > MAX_LINE_CHARS ? `${text.slice(0, MAX_LINE_CHARS)}…` : text;
}

/** A value from outside as a message may show it: short, on one line, without effect on a terminal. */
export function shown(value: unknown): string {
  if (value === undefined) return "nothing";
  if (value === null) return "null";
  if (Array.isArray(value))
    return value.length === 0 ? "an empty list" : `a list of ${value.length}`;
  switch (typeof value) {
    case "string": {
      const cut = value.length > MAX_SHOWN_CHARS ? `${value.slice(0, MAX_SHOWN_CHARS)}…` : value;
      return `"${harmless(cut.replace(/["\\]/g, "\\$&"))}"`;
    }
    case "number":
    case "boolean":
      return String(value);
    case "object":
      return "a map";
    default:
      return `a ${typeof value}`;
  }
}

/** Text of others with what could steer a terminal escaped, cut at 400 characters. */
export function harmless(text: string): string {
  const cut = text.length > MAX_LINE_CHARS ? `${text.slice(0, MAX_LINE_CHARS)}…` : text;
  return cut.replace(UNSAFE, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
