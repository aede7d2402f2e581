/**
 * @file Keeps the rows of lobbies in the store: pages, and a directory of pages for each sorted run.
 *
 * A merge reads and writes page by page, so its memory does not grow with the runs. Cost: O(rows log runs). What a lobby does not need any
 * more is removed by a later merge, once no run of the lobby can be started again from an input that names it.
 */

import { byCall, type LobbyKey } from "../domain/lease/lobby-order.ts";
import type {
  Leaver,
  LobbyStoreActivities,
  LostRows,
  MergeOrder,
  PackedRow,
  RunRest,
  Sample,
  StoredRun,
} from "../protocol/lobby-contract.ts";
import { isFields, type Fields } from "../lib/fields.ts";
import type { Store } from "./store.ts";

/** Rows of a page that a merge writes; a page takes about 48 KiB. */
const PAGE_ROWS = 400;
const MAX_SAMPLES = 24;

interface Page {
  readonly name: string;
  readonly rows: readonly PackedRow[];
}

interface Directory {
  readonly name: string;
  readonly pages: readonly (readonly [key: string, count: number])[];
}

interface LeaverPage {
  readonly name: string;
  readonly leavers: readonly Leaver[];
}

type LobbyStore = Pick<Store, "put" | "get" | "remove">;

/** `alive`: called now and then by what takes long. */
export function createLobbyStore(store: LobbyStore, alive: () => void): LobbyStoreActivities {
  return {
    async keepRows({ name, rows }) {
      const writer = createWriter(store, name);
      for (const row of rows) await writer.write(row);
      return await writer.end();
    },
    keepLeavers: (page) => store.put(page satisfies LeaverPage),
    async loadRows({ runs, maxBytes }) {
      const rows: (readonly PackedRow[])[] = [];
      for (const rest of runs) {
        const read = await readSome(store, rest, maxBytes);
        if (read === undefined) return LOST;
        rows.push(read);
      }
      return { kind: "rows", rows };
    },
    mergeRows: (order) => mergeRows(store, order, alive),
  };
}

const LOST: LostRows = { kind: "lost" };

async function readSome(
  store: LobbyStore,
  { directory, at }: RunRest,
  maxBytes: number,
): Promise<readonly PackedRow[] | undefined> {
  const reader = await openReader(store, { directory, at });
  const rows: PackedRow[] = [];
  let bytes = 0;
  for (;;) {
    const row = await reader?.next();
    if (row === undefined || row === "lost") return undefined;
    if (row === "over") return rows;
    bytes += JSON.stringify(row).length;
    if (rows.length > 0 && bytes > maxBytes) return rows;
    rows.push(row);
  }
}

async function mergeRows(
  store: LobbyStore,
  { name, runs, leavers, unused }: MergeOrder,
  alive: () => void,
): ReturnType<LobbyStoreActivities["mergeRows"]> {
  const left = await readLeavers(store, leavers);
  const writer = createWriter(store, name);
  const heads: { readonly reader: Reader; row: PackedRow }[] = [];
  for (const rest of runs) {
    const reader = await openReader(store, rest);
    const row = await reader?.next();
    if (reader === undefined || row === undefined || row === "lost") return LOST;
    if (row !== "over") heads.push({ reader, row });
  }
  for (let count = 0; heads.length > 0; count += 1) {
    if (count % 10_000 === 0) alive();
    const first = heads.reduce((least, head) => (byRow(head.row, least.row) < 0 ? head : least));
    const [jobId, runId, seq] = first.row;
    if ((left.get(`${jobId} ${runId}`) ?? -1) < seq) await writer.write(first.row);
    const row = await first.reader.next();
    if (row === "lost") return LOST;
    if (row === "over") heads.splice(heads.indexOf(first), 1);
    else first.row = row;
  }
  const run = await writer.end();
  for (const key of unused) await removeAll(store, key);
  return { kind: "merged", run };
}

const byRow = (a: PackedRow, b: PackedRow): number => byCall(lobbyKey(a), lobbyKey(b));

const lobbyKey = (row: PackedRow): LobbyKey => ({
  jobId: row[0],
  priority: row[4],
  submittedAtMs: row[5],
  round: row[7],
});

/** The highest request of each that has left. */
async function readLeavers(
  store: LobbyStore,
  keys: readonly string[],
): Promise<ReadonlyMap<string, number>> {
  const left = new Map<string, number>();
  for (const key of keys) {
    // Lost ones are called in, and found to be gone.
    const page = await store.get<LeaverPage>(key);
    for (const [jobId, runId, seq] of page?.leavers ?? []) {
      const of = `${jobId} ${runId}`;
      left.set(of, Math.max(seq, left.get(of) ?? -1));
    }
  }
  return left;
}

interface Reader {
  readonly next: () => Promise<PackedRow | "over" | "lost">;
}

/** Undefined when the directory is lost. */
async function openReader(store: LobbyStore, rest: RunRest): Promise<Reader | undefined> {
  const directory = await store.get<Directory>(rest.directory);
  if (directory === undefined) return undefined;
  let before = rest.at;
  let page = 0;
  while (page < directory.pages.length && before >= (directory.pages[page]?.[1] ?? 0)) {
    before -= directory.pages[page]?.[1] ?? 0;
    page += 1;
  }
  let rows: readonly PackedRow[] | undefined;
  return {
    async next() {
      if (rows === undefined || before >= rows.length) {
        if (rows !== undefined) [page, before] = [page + 1, 0];
        const [key] = directory.pages[page] ?? [];
        if (key === undefined) return "over";
        rows = (await store.get<Page>(key))?.rows;
      }
      return rows?.[before++] ?? "lost";
    },
  };
}

interface Writer {
  readonly write: (row: PackedRow) => Promise<void>;
  readonly end: () => Promise<StoredRun>;
}

function createWriter(store: LobbyStore, name: string): Writer {
  const pages: (readonly [string, number])[] = [];
  let rows: PackedRow[] = [];
  let count = 0;
  let step = 1;
  let samples: Sample[] = [];
  const flush = async (): Promise<void> => {
    if (rows.length === 0) return;
    const page: Page = { name: `${name} ${String(pages.length)}`, rows };
    pages.push([await store.put(page), rows.length]);
    rows = [];
  };
  return {
    async write(row) {
      if (count % step === 0) samples.push([row[7], row[4], row[5], count]);
      if (samples.length > MAX_SAMPLES) {
        step *= 2;
        samples = samples.filter(([, , , rank]) => rank % step === 0);
      }
      count += 1;
      rows.push(row);
      if (rows.length >= PAGE_ROWS) await flush();
    },
    async end() {
      await flush();
      const directory = await store.put({ name, pages } satisfies Directory);
      return { directory, count, samples };
    },
  };
}

/**
 * A directory with its pages, or a page of leavers. Only what lobbies have put there: whoever reaches the frontend asks for this with any key, and models and
 * fleet files lie beside.
 */
async function removeAll(store: LobbyStore, key: string): Promise<void> {
  const value = await store.get<unknown>(key);
  if (!isNamed(value)) return;
  if (Array.isArray(value["leavers"])) return await store.remove(key);
  if (!Array.isArray(value["pages"])) return;
  for (const listed of value["pages"] as readonly unknown[]) {
    const [page] = Array.isArray(listed) ? (listed as readonly unknown[]) : [];
    if (typeof page !== "string") continue;
    const rows = await store.get<unknown>(page);
    if (isNamed(rows) && Array.isArray(rows["rows"])) await store.remove(page);
  }
  await store.remove(key);
}

const isNamed = (value: unknown): value is Fields =>
  isFields(value) && typeof value["name"] === "string";
