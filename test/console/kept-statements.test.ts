/** @file Writes to the history database prepare each of their statements once, because SQLite's memory of them is told to nobody. */

import Database from "libsql";
import { expect, it, vi } from "vitest";
import { createStatements } from "../../console/history/kept-statements.ts";

it("a thousand rows are written by one statement, and each says how many rows it changed", () => {
  const database = new Database(":memory:");
  database.exec("CREATE TABLE rows (at INTEGER PRIMARY KEY, text TEXT)");
  const prepare = vi.spyOn(database, "prepare");
  const run = createStatements(database);
  const put = "INSERT OR IGNORE INTO rows VALUES (:at, :text)";
  const changed = Array.from({ length: 1_000 }, (_, at) => {
    const row = { at: Math.floor(at / 2), text: `row ${String(at)}` };
    return run(put, row).changes;
  });
  expect(changed.reduce((all, one) => all + one)).toBe(500);
  expect(run("DELETE FROM rows WHERE at >= :at", { at: 100 }).changes).toBe(400);
  expect(prepare).toHaveBeenCalledTimes(2);
  prepare.mockRestore();
  expect(database.prepare("SELECT text FROM rows WHERE at = 99").get()).toMatchObject({
    text: "row 198",
  });
  database.close();
});
