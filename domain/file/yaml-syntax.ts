/** @file The YAML library's findings as problems of a file, each with a remedy for authors of such files. */

import type { YAMLError } from "yaml";
import { harmless, type FileProblem } from "../values/file-problem.ts";

/** One mistake causes many parser errors; the first few are enough. */
const MAX_SYNTAX_PROBLEMS = 20;

const REMEDY_BY_CODE: ReadonlyMap<string, string> = new Map([
  ["TAB_AS_INDENT", "indent with spaces"],
  ["BAD_INDENT", "give all keys of one map the same indentation"],
  ["MISSING_CHAR", "add what is missing, or put the text in quotes"],
  ["BAD_SCALAR_START", "put the text in quotes"],
  ["BAD_DQ_ESCAPE", "write \\\\ for a backslash, or use single quotes"],
  ["BLOCK_AS_IMPLICIT_KEY", "put text that contains a colon in quotes"],
  ["MULTILINE_IMPLICIT_KEY", "put a colon and a space after the key, all in one line"],
  ["TAG_RESOLVE_FAILED", "leave the tag out"],
  ["RESOURCE_EXHAUSTION", "nest less deeply"],
]);

export function syntaxProblems(
  errors: readonly YAMLError[],
  file: string,
  placeAt: (offset: number) => { readonly line: number; readonly column: number },
): FileProblem[] {
  return errors.slice(0, MAX_SYNTAX_PROBLEMS).map((error) => ({
    file,
    ...placeAt(error.pos[0]),
    path: "",
    value: "",
    message: `not YAML: ${harmless(error.message)}`,
    remedy: REMEDY_BY_CODE.get(error.code) ?? "mend the YAML here",
  }));
}
