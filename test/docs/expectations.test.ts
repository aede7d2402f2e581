/** @file The page of users' expectations: its files are there, rows that are called held name a test on a fleet for each clause, and how its cells are read. */

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { hasFleet, readExpectations, titlePattern } from "../../tools/expectations-table.mjs";

const ROOT = join(import.meta.dirname, "../..");
const rows = readExpectations(readFileSync(join(ROOT, "test/expectations.md"), "utf8"));

/** The text of a file of tests, or of all in a folder. */
const sourcesOf = (file: string): string =>
  (file.endsWith("/") ? readdirSync(join(ROOT, file)).map((name) => file + name) : [file])
    .map((path) => readFileSync(join(ROOT, path), "utf8"))
    .join("\n");

describe("test/expectations.md", () => {
  it("has 25 rows with clauses, whose tests' files are there", () => {
    expect(rows.map(({ number }) => number)).toEqual(Array.from({ length: 25 }, (_, at) => at + 1));
    expect(rows.filter(({ clauses }) => clauses.length === 0)).toEqual([]);
    const files = rows.flatMap(({ clauses }) => clauses.flatMap(({ tests }) => tests));
    expect(files.filter(({ file }) => !existsSync(join(ROOT, file)))).toEqual([]);
  });

  // Titles may be composed of a table's words, so each word counts by itself; a page's commands have its name.
  it("names titles whose words stand in their files", () => {
    const named = rows.flatMap(({ clauses }) => clauses.flatMap(({ tests }) => tests));
    const absent = named.filter(({ file, title = "" }) => {
      const source = sourcesOf(file);
      return title
        .split(/[\s…]+/)
        .some((word) => !source.includes(word) && !existsSync(join(ROOT, "docs", word)));
    });
    expect(absent).toEqual([]);
  });

  it("names each test on a fleet by its title, so that a clause runs what shows it and no more", () => {
    const named = rows.flatMap(({ clauses }) => clauses.flatMap(({ tests }) => tests));
    expect(named.filter((test) => hasFleet(test) && test.title === undefined)).toEqual([]);
  });

  it("calls no row held of which a clause has no test on a fleet or in a browser", () => {
    const held = rows.filter(({ verdict }) => verdict.startsWith("holds"));
    const without = held.flatMap(({ number, clauses }) =>
      clauses.flatMap(({ name, tests }) => (tests.some(hasFleet) ? [] : [[number, name]])),
    );
    expect(without).toEqual([]);
  });
});

it("a cell names files by path or short name, titles after a colon, and what the clause before names", () => {
  const page = `
\`short\` is \`test/integration/a.test.ts\`.

## 7 · A row: in part

| clause | command | field and value | test |
| --- | --- | --- | --- |
| one | \`x\` | y | \`short\`: does this (\`x\`, \`y\`); exits with …; a figure of \`docs/b.md\` |
| two | the same | y | the same; the law by \`test/b/\` |
| three | z | y | \`short\`: the same; 1 by \`test/c.test.ts\` |
| four | missing | |  |
`;
  const one = { file: "test/integration/a.test.ts", title: "does this" };
  const other = { ...one, title: "exits with …" };
  expect(readExpectations(page)).toMatchObject([
    {
      ...{ number: 7, title: "A row", verdict: "in part" },
      clauses: [
        { name: "one", tests: [one, other] },
        { name: "two", tests: [one, other, { file: "test/b/" }] },
        { name: "three", tests: [one, other, { file: "test/c.test.ts" }] },
        { name: "four", tests: [] },
      ],
    },
  ]);
  expect(new RegExp(titlePattern(other.title)).test("submit exits with 7")).toBe(true);
  expect(new RegExp(titlePattern("a.b")).test("axb")).toBe(false);
});
