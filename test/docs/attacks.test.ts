/** @file The table of attacks has every file of attacks, and each row says what the attack leaves in the audit. */

import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { expect, it } from "vitest";
import { ROOT } from "./pages.ts";

const COLUMNS = 5;
const rows = readFileSync(path.join(ROOT, "docs/attacks.md"), "utf8")
  .split("\n")
  .filter((line) => line.startsWith("| "))
  .map((line) => line.split("|").slice(1, -1))
  .map((cells) => cells.map((cell) => cell.trim()))
  // Those of the other tables are no attacks on a fleet.
  .filter(({ length }) => length === COLUMNS)
  .slice(2);
const KINDS = /^(service|fleet|job|attendant|host|worker|history|none)\b/;

/** Attacks among the integration tests of what they attack. */
const ELSEWHERE = ["cron.test.ts"];

it("every file of attacks has its rows, and every row a file", () => {
  const named = rows.flatMap(([files = ""]) => [...files.matchAll(/`([^`]+)`/g)]);
  const files = readdirSync(path.join(ROOT, "test/attacks")).filter((file) =>
    file.endsWith(".test.ts"),
  );
  expect(named.map(([, file]) => file).sort()).toEqual([...files, ...ELSEWHERE].sort());
});

it("every row says who, what, what it meets, and what it leaves in the audit, or why nothing", () => {
  for (const [, level = "", attack = "", meets = "", line = ""] of rows) {
    expect([level, attack, meets].every((cell) => cell !== "")).toBe(true);
    expect(line).toMatch(KINDS);
    if (line.startsWith("none")) expect(line).toMatch(/^none(: \S| until then: \S)/);
  }
});

it("every file with an attack that leaves a line asks the audit for it", () => {
  const leaving = new Set<string>();
  let files: readonly string[] = [];
  for (const [named = "", , , , line = ""] of rows) {
    const found = [...named.matchAll(/`([^`]+)`/g)].map(([, file = ""]) => file);
    if (found.length > 0) files = found;
    if (!line.startsWith("none")) for (const file of files) leaving.add(file);
  }
  const silent = [...leaving].filter((file) => {
    const folder = ELSEWHERE.includes(file) ? "test/integration" : "test/attacks";
    return !/audit/i.test(readFileSync(path.join(ROOT, folder, file), "utf8"));
  });
  expect(silent).toEqual([]);
});
