/** @file A history database of a former release that two consoles open at the same time. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, expect, it } from "vitest";
import { openHistory } from "../../console/history/database.ts";

const scratch = mkdtempSync(path.join(tmpdir(), "orbweaver-at-once-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

it("a file of a former release is opened while another console brings it up to date", async () => {
  const file = path.join(scratch, "former.db");
  const former = await openHistory(file, { isNew: true });
  former.all("ALTER TABLE uses DROP COLUMN untilMs", {});
  former.close();
  const code = `const other = new (require("libsql"))(process.argv[1]);
    other.exec("BEGIN IMMEDIATE; ALTER TABLE uses ADD COLUMN untilMs REAL NOT NULL DEFAULT 0");
    process.stdout.write("adds");
    setTimeout(() => { other.exec("COMMIT"); other.close(); }, 500);`;
  const other = spawn(process.execPath, ["-e", code, file], {
    cwd: path.join(import.meta.dirname, "../.."),
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = once(other, "close");
  await once(other.stdout, "data");
  const database = await openHistory(file, { isNew: true });
  expect(database.all("SELECT untilMs FROM uses", {})).toEqual([]);
  database.close();
  expect(await ended).toEqual([0, null]);
});
