/** @file Free pages of the server's database: given back beside a server that writes, and of a file of a former release while its server is down. */

import { mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import Database from "libsql";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { identityOf } from "../../../agent/system/process-identity.ts";
import { freeSpaces, giveBack } from "../../../cli/house/free-space.ts";
import { noteDatabaseUser } from "../../../cli/up/own-server.ts";
import { run } from "../run.ts";

let root = "";
let stateDir = "";
let file = "";
beforeEach(() => {
  root = mkdtempSync(path.join(tmpdir(), "orbweaver-free-space-"));
  stateDir = path.join(root, "f");
  mkdirSync(stateDir);
  file = path.join(stateDir, "temporal.db");
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

/** Columns as the server makes them: their paths are in double quotes, which a new table may not have here. */
const TABLE = `CREATE TABLE visible (id INTEGER PRIMARY KEY, words TEXT, pad BLOB,
  kind TEXT GENERATED ALWAYS AS (JSON_EXTRACT(words, "$.Kind")), day TEXT GENERATED ALWAYS AS (JSON_EXTRACT(words, "$.Day_1")) STORED)`;
const ROWS = 3_000;

/** With 4 MiB of rows, of which every third is left. */
function made({ isIncremental }: { readonly isIncremental: boolean }): Database.Database {
  const database = new Database(file);
  if (isIncremental) database.exec("PRAGMA auto_vacuum = INCREMENTAL");
  database.exec("PRAGMA journal_mode = WAL");
  database.exec(TABLE.replaceAll('"', "'"));
  database.exec("CREATE INDEX by_kind ON visible (kind)");
  database.exec("PRAGMA writable_schema = ON");
  database.prepare("UPDATE sqlite_schema SET sql = ? WHERE name = 'visible'").run(TABLE);
  database.exec("PRAGMA writable_schema = RESET");
  const put = database.prepare("INSERT INTO visible (id, words, pad) VALUES (?, ?, ?)");
  database.transaction(() => {
    for (let id = 0; id < ROWS; id += 1)
      put.run(id, JSON.stringify({ Kind: `k${String(id % 7)}`, Day_1: id }), Buffer.alloc(1_400));
  })();
  database.exec("DELETE FROM visible WHERE id % 3 > 0; PRAGMA wal_checkpoint(TRUNCATE)");
  return database;
}
const place = () => ({ stateDir, state: undefined });
const serverSpace = async () => (await freeSpaces(place())).at(-1);
const rowsOf = (database: Database.Database): unknown =>
  database
    .prepare("SELECT count(*) AS rows, sum(day) AS days FROM visible WHERE kind IN ('k1', 'k2')")
    .all();
const tableOf = (database: Database.Database): unknown =>
  database.prepare("SELECT sql FROM sqlite_schema WHERE name = 'visible'").all();
const integrityOf = (database: Database.Database): unknown =>
  database.prepare("PRAGMA integrity_check").all();

describe("free pages of the server's database", () => {
  it("go back to the disk while another program has it open and writes", async () => {
    const server = made({ isIncremental: true });
    const [before, rows] = [statSync(file).size, rowsOf(server)];
    expect(await serverSpace()).toMatchObject({ then: "given back" });
    const giving = giveBack(place());
    server.exec("INSERT INTO visible (id, words) VALUES (1, '{}')");
    const returned = await giving;
    expect(returned).toBeGreaterThan(0.5 * before);
    expect(statSync(file).size).toBeLessThan(0.5 * before);
    expect(await serverSpace()).toMatchObject({ then: "filled" });
    expect(integrityOf(server)).toEqual([{ integrity_check: "ok" }]);
    expect(rowsOf(server)).toEqual(rows);
    server.close();
  });

  it("of a file that a former release made go back once its server is down, and from then on at any time", async () => {
    const server = made({ isIncremental: false });
    const [before, rows] = [statSync(file).size, rowsOf(server)];
    const self = identityOf(process.pid);
    if (self === undefined) throw new Error("this process has no identity");
    const noted = { address: "here:1", namespace: "default", databaseFile: file, logFile: "log" };
    await noteDatabaseUser(stateDir, { ...self, ...noted });
    expect(await serverSpace()).toMatchObject({ then: "given back while down" });
    expect(await giveBack(place())).toBe(0);
    expect(statSync(file).size).toBe(before);

    await noteDatabaseUser(stateDir, { ...self, started: "before", ...noted });
    expect(await serverSpace()).toMatchObject({ then: "given back" });
    expect(await giveBack(place())).toBeGreaterThan(0.5 * before);
    expect(statSync(file).size).toBeLessThan(0.5 * before);
    expect(rowsOf(server)).toEqual(rows);
    expect(tableOf(server)).toEqual([{ sql: TABLE }]);
    expect(integrityOf(server)).toEqual([{ integrity_check: "ok" }]);
    expect(server.prepare("PRAGMA auto_vacuum").all()).toEqual([{ auto_vacuum: 2 }]);
    server.close();
  });

  it("stay where another program holds the file, which is told and leaves it as it was", async () => {
    const server = made({ isIncremental: false });
    const rows = rowsOf(server);
    server.exec("BEGIN IMMEDIATE");
    await expect(giveBack(place())).rejects.toThrow(/locked/);
    server.exec("ROLLBACK");
    expect(rowsOf(server)).toEqual(rows);
    expect(tableOf(server)).toEqual([{ sql: TABLE }]);
    server.close();
  });

  it("are told by `house --collect`, before and after", async () => {
    made({ isIncremental: true }).close();
    const collect = async (words: readonly string[]) =>
      await run(["house", "--collect", ...words], {
        env: { ORBWEAVER_STATE_DIR: root, ORBWEAVER_FLEET: "f" },
        cwd: root,
      });
    const dry = await collect(["--dry-run"]);
    expect(dry.stdout).toMatch(
      /server's database: [\d.]+ MiB, of which [\d.]+ MiB are free: the collection gives them back/,
    );
    const { stdout, code } = await collect(["--yes"]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/given back: [\d.]+ MiB of the server's database/);
    const again = await collect(["--yes", "--json"]);
    expect(JSON.parse(again.stdout)).toMatchObject({ collected: { returnedBytes: 0 } });
    const { stdout: house } = await run(["house"], {
      env: { ORBWEAVER_STATE_DIR: root, ORBWEAVER_FLEET: "f" },
      cwd: root,
    });
    expect(house).toMatch(/collected/);
  });

  it("are nothing to a file that is no database", async () => {
    writeFileSync(
      file,
      "no database at all, but long enough to have a header of a hundred bytes".repeat(9),
    );
    expect(await freeSpaces(place())).toEqual([]);
    expect(await giveBack(place())).toBe(0);
  });
});
