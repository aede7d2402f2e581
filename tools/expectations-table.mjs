/**
 * @file Reads `test/expectations.md`: its rows, their clauses, and the tests that each clause names.
 *
 * The cell of tests has parts between semicolons; those that name a page of docs are no tests. A part names a file in backquotes, by its path or by a short name that the page explains ("`client` is
 * `test/…`"), and after a colon words of the title of a test, with "…" for any others. A part without a file goes on with the file before it; one without
 * words after a colon means all tests of the file; `the same` means what the clause before names, after a file what the nearest
 * one before names of it. A cell without a test says that the clause is missing.
 */

const HEADING = /^## (\d+) · (.+?): (.+)$/;
const SHORT_NAME = /`([a-z-]+)` is\s+`(test\/[^`]+)`/g;
const RULE = /^\| -/;

/** The rows of the page: `{ number, title, verdict, clauses: [{ name, field, tests: [{ file, title? }] }] }`; a file that ends with `/` is a folder. */
export function readExpectations(text) {
  const files = new Map([...text.matchAll(SHORT_NAME)].map(([, name, file]) => [name, file]));
  const rows = [];
  for (const line of text.split("\n")) {
    const [, number, title, verdict] = HEADING.exec(line) ?? [];
    if (number !== undefined) rows.push({ number: Number(number), title, verdict, clauses: [] });
    const row = rows.at(-1);
    if (row === undefined || !line.startsWith("| ") || RULE.test(line)) continue;
    const [name, , field, cell] = cellsOf(line);
    if (name === "clause") continue;
    row.clauses.push({ name, field, tests: testsOf(cell, row.clauses, files) });
  }
  return rows;
}

const cellsOf = (line) =>
  line
    .slice(1, line.lastIndexOf("|"))
    .split(/(?<!\\)\|/)
    .map((cell) => cell.trim());

function testsOf(cell, former, files) {
  const tests = [];
  let file;
  for (const part of cell.split(";").map((each) => each.trim())) {
    if (/^the same\b/.test(part)) tests.push(...(former.at(-1)?.tests ?? []));
    // A figure of a page is no test.
    if (part.includes("`docs/")) continue;
    // Words of a title may stand in backquotes, too, so the first known name is the file.
    const names = [...part.matchAll(/`([^`]+)`/g)].map(([, name]) => fileOf(name, files));
    const named = names.find((each) => each !== undefined);
    const [, words] = named === undefined ? [part, part] : (/`:\s*(.*)$/.exec(part) ?? []);
    file = named ?? file;
    if (file === undefined || (named === undefined && tests.length === 0)) continue;
    const title = words?.replace(/\s*\((?=`).*\)$|`/g, "").trim();
    if (title === "the same") tests.push(...lastOf(file, former));
    else tests.push({ file, ...(title !== undefined && title !== "" && { title }) });
  }
  return tests;
}

/** The tests of that file which the nearest clause before names. */
const lastOf = (file, former) =>
  former
    .map(({ tests }) => tests.filter((test) => test.file === file))
    .findLast((tests) => tests.length > 0) ?? [];

/** Undefined for what is no file of tests. */
function fileOf(name, files) {
  if (/^test\/.*(\.test\.ts|\/)$/.test(name)) return name;
  return files.get(name);
}

/** Matches titles of tests that have these words. */
export const titlePattern = (title) =>
  title
    .split("…")
    .map((part) => part.trim().replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&"))
    .join(".*");

/** Files by whose tests alone a clause is shown without a fleet. */
export const hasFleet = ({ file }) => /^test\/(integration|attacks|browser)\//.test(file);
