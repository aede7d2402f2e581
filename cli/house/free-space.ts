/**
 * @file What is free inside a fleet's databases, and giving the free pages of the server's back to the disk.
 *
 * A database that `up` made can give pages back while its server writes (SQLite's incremental vacuum): some at a time, so that the server's
 * transactions wait for milliseconds. One of a former release has to be written anew once (`VACUUM`), which needs as much disk as it will have
 * and keeps writers away; so that is done only while its server is down. Either way it is a transaction: a death at any moment leaves the file as it was, or done.
 */

import { existsSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type Libsql from "libsql";
import type { UpState } from "../../workers/state.ts";
import { livingDatabaseUser } from "../up/own-server.ts";
import { HISTORY } from "../up/backup.ts";
import { databaseFileOf } from "../up/places.ts";

export interface FreeSpace {
  readonly what: string;
  readonly bytes: number;
  /** Of its pages that hold nothing; it fills those before it grows. */
  readonly freeBytes: number;
  /** What becomes of them: a collection gives them back; one while the fleet is down does; or they wait to be filled. */
  readonly then: "given back" | "given back while down" | "filled";
}

const BUSY_MS = 5_000;
/** About a megabyte: less than the server writes for a few jobs. */
const PAGES_AT_ONCE = 256;
/** The server's turn. */
const PAUSE_MS = 20;
/** Less is not worth a write. */
const LEAST_BYTES = 2 ** 20;
/** A file that has to be written anew is when this share of it is free. */
const LEAST_SHARE = 0.25;

interface Place {
  readonly stateDir: string;
  readonly state: UpState | undefined;
}

export async function freeSpaces(place: Place): Promise<readonly FreeSpace[]> {
  const history = await pagesOf(join(place.stateDir, HISTORY));
  const server = await pagesOf(serverFileOf(place));
  return [
    ...(history === undefined
      ? []
      : [{ what: "history database", ...sizesOf(history), then: "filled" as const }]),
    ...(server === undefined
      ? []
      : [{ what: "server's database", ...sizesOf(server), then: nextOf(server, place) }]),
  ];
}

/** Bytes by which the server's database is smaller. Fails where it cannot be written. */
export async function giveBack(place: Place): Promise<number> {
  const file = serverFileOf(place);
  const pages = await pagesOf(file);
  if (pages === undefined || nextOf(pages, place) !== "given back") return 0;
  const { default: Database } = await import("libsql");
  const database = new Database(file);
  try {
    database.exec(`PRAGMA busy_timeout = ${String(BUSY_MS)}`);
    if (pages.isIncremental) await shrink(database);
    else rewrite(database);
    // In a write-ahead log the file itself is cut by a checkpoint; a reader may put that off to the server's next one.
    database.prepare("PRAGMA wal_checkpoint(TRUNCATE)").get();
    return Math.max(0, pages.bytes - readPages(database).bytes);
  } finally {
    database.close();
  }
}

const serverFileOf = ({ stateDir, state }: Place): string =>
  state?.server?.databaseFile ?? databaseFileOf(stateDir);

interface Pages {
  readonly bytes: number;
  readonly freeBytes: number;
  readonly isIncremental: boolean;
}

/** Undefined where it is no database that can be read now. */
async function pagesOf(file: string): Promise<Pages | undefined> {
  if (!existsSync(file)) return undefined;
  const { default: Database } = await import("libsql");
  try {
    const database = new Database(file, { readonly: true });
    try {
      return readPages(database);
    } finally {
      database.close();
    }
  } catch {
    return undefined;
  }
}

function readPages(database: Libsql.Database): Pages {
  const { pages, free, size, kind } = database
    .prepare(
      "SELECT page_count AS pages, freelist_count AS free, page_size AS size, auto_vacuum AS kind FROM pragma_page_count, pragma_freelist_count, pragma_page_size, pragma_auto_vacuum",
    )
    .get() as Readonly<Record<"pages" | "free" | "size" | "kind", number>>;
  return { bytes: pages * size, freeBytes: free * size, isIncremental: kind === INCREMENTAL };
}

const INCREMENTAL = 2;

const sizesOf = ({ bytes, freeBytes }: Pages) => ({ bytes, freeBytes });

function nextOf({ bytes, freeBytes, isIncremental }: Pages, place: Place): FreeSpace["then"] {
  if (freeBytes < LEAST_BYTES) return "filled";
  if (isIncremental) return "given back";
  if (freeBytes < LEAST_SHARE * bytes) return "filled";
  return livingDatabaseUser(serverFileOf(place)) === undefined
    ? "given back"
    : "given back while down";
}

async function shrink(database: Libsql.Database): Promise<void> {
  // The server may free more meanwhile; what was free at first is enough.
  let left = readPages(database).freeBytes;
  while (left > 0) {
    database.exec(`PRAGMA incremental_vacuum(${String(PAGES_AT_ONCE)})`);
    const { freeBytes } = readPages(database);
    if (freeBytes >= left) return;
    left = freeBytes;
    await sleep(PAUSE_MS);
  }
}

/**
 * The server's generated columns name JSON paths in double quotes, which our SQLite refuses in a new table (as `VACUUM` makes them) and takes in one
 * that is there. So they are in single quotes, which mean the same, until the file is written; from then on it gives pages back by itself.
 */
function rewrite(database: Libsql.Database): void {
  const quoted = database
    .prepare(`SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND sql LIKE '%"$.%'`)
    .all() as readonly { readonly name: string; readonly sql: string }[];
  const write = (tables: typeof quoted): void => {
    database.exec("PRAGMA writable_schema = ON");
    try {
      const put = database.prepare(
        "UPDATE sqlite_schema SET sql = :sql WHERE type = 'table' AND name = :name",
      );
      database.transaction(() => {
        for (const table of tables) put.run(table);
      })();
    } finally {
      database.exec("PRAGMA writable_schema = RESET");
    }
  };
  write(quoted.map(({ name, sql }) => ({ name, sql: sql.replace(/"(\$\.\w+)"/g, "'$1'") })));
  try {
    database.exec("PRAGMA auto_vacuum = INCREMENTAL; VACUUM");
  } finally {
    write(quoted);
  }
}
