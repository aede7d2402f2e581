/**
 * @file What a fleet keeps on this machine, how large it is, who removes it, and what is due by that rule. Only looks: links are counted as links and not
 * followed, and what vanishes or may not be read meanwhile is said, not an error.
 */

import { lstatSync, readdirSync, type Stats } from "node:fs";
import { join } from "node:path";
import { DEFAULT_RETENTION, overdue } from "../../agent/runs/retention.ts";
import { MOST_ARCHIVE_BYTES } from "../../console/past/run-archive.ts";
import { byCodeUnit } from "../../domain/values/ids.ts";
import { hasErrorCode } from "../../lib/error-code.ts";
import { databaseFileOf, logsDirOf, storeDirOf } from "../up/places.ts";
import { HISTORY } from "../up/backup.ts";

export interface Amount {
  readonly files: number;
  readonly bytes: number;
  /** Files and folders that could not be looked at. */
  readonly unread: number;
}

export interface Holding extends Amount {
  readonly what: string;
  readonly path: string;
  readonly keptBy: string;
  /** What its rule says is to go; absent where there is no such rule. */
  readonly due?: Amount;
}

export interface KeptCheckpoints extends Amount {
  /** The folder of the job, which is its id with special characters escaped. */
  readonly folder: string;
  readonly changedAtMs: number;
}

export interface House {
  readonly holdings: readonly Holding[];
  /** By size, the largest first. */
  readonly checkpoints: readonly KeptCheckpoints[];
}

interface Measured extends Amount {
  readonly changedAtMs: number;
}

const NOTHING: Measured = { files: 0, bytes: 0, unread: 0, changedAtMs: 0 };
const DAY_MS = 86_400_000;
const { keepMs, keepCount } = DEFAULT_RETENTION;
/** Of a launch that has ended; of an array's, which has a report in each batch, it is not known. */
const REPORT = "report.json";
const RUNS_FOLDER = `${HISTORY}.runs`;

export function houseOf(stateDir: string, nowMs: number): House {
  const database = databaseFileOf(stateDir);
  const history = join(stateDir, HISTORY);
  const archive = measure(join(stateDir, RUNS_FOLDER));
  const launches = namesIn(join(stateDir, "hosts")).flatMap((cluster) =>
    namesIn(join(stateDir, "hosts", cluster)).map((host) =>
      launchesOf(join(stateDir, "hosts", cluster, host, "leases"), nowMs),
    ),
  );
  const checkpoints = namesIn(join(stateDir, "jobs"))
    .map((folder) => ({ folder, ...measure(join(stateDir, "jobs", folder, "checkpoints")) }))
    .filter(({ files }) => files > 0)
    .sort((a, b) => b.bytes - a.bytes || byCodeUnit(a.folder, b.folder));
  const holdings: readonly (Holding & Partial<Measured>)[] = [
    {
      what: "server's database",
      path: database,
      keptBy: "Temporal drops histories after the namespace's retention; the file does not shrink",
      ...withLogs(database),
    },
    {
      what: "history database",
      path: history,
      keptBy: "for good: leases and ended jobs, about 200 bytes each",
      ...withLogs(history),
    },
    {
      what: "archived runs",
      path: join(stateDir, RUNS_FOLDER),
      keptBy: `the console removes the oldest beyond ${MOST_ARCHIVE_BYTES / 2 ** 30} GiB`,
      ...archive,
      due: { files: 0, bytes: Math.max(0, archive.bytes - MOST_ARCHIVE_BYTES), unread: 0 },
    },
    {
      what: "store",
      path: storeDirOf(stateDir),
      keptBy: "for good: fleet files' tables and launch extras, by hash",
      ...measure(storeDirOf(stateDir)),
    },
    {
      what: "output of launches",
      path: join(stateDir, "hosts"),
      keptBy: `agents remove it each hour: after ${keepMs / DAY_MS} days, or beyond ${keepCount} launches a host`,
      ...sum(launches.map(({ all }) => all)),
      due: sum(launches.map(({ due }) => due)),
    },
    {
      what: "checkpoints",
      path: join(stateDir, "jobs"),
      keptBy: "for good: a retry or another job may go on from them",
      ...sum(checkpoints),
    },
    {
      what: "logs of processes",
      path: logsDirOf(stateDir),
      keptBy: "for good",
      ...measure(logsDirOf(stateDir)),
    },
  ];
  return {
    holdings: holdings.map(({ changedAtMs: _changed, ...holding }) => holding),
    checkpoints,
  };
}

/** Old or beyond the count by their agent's rule, as far as files tell: a launch without a report may still run, and is not due. */
function launchesOf(
  leases: string,
  nowMs: number,
): { readonly all: Measured; readonly due: Measured } {
  const found = namesIn(leases).map((name) => ({ name, ...measure(join(leases, name)) }));
  const over = found
    .filter(({ name }) => namesIn(join(leases, name)).includes(REPORT))
    .map((launch) => ({ ...launch, atMs: launch.changedAtMs }));
  return { all: sum(found), due: sum(overdue(over, DEFAULT_RETENTION, nowMs)) };
}

/** A database of SQLite's with the files beside it. */
const withLogs = (file: string): Measured =>
  sum(["", "-wal", "-shm"].map((ending) => measure(`${file}${ending}`)));

const sum = (parts: readonly Measured[]): Measured =>
  parts.reduce(
    (all, { files, bytes, unread, changedAtMs }) => ({
      files: all.files + files,
      bytes: all.bytes + bytes,
      unread: all.unread + unread,
      changedAtMs: Math.max(all.changedAtMs, changedAtMs),
    }),
    NOTHING,
  );

/** The size of a file, or of all files below a folder; a link is a file of the length of its text. */
function measure(path: string): Measured {
  let all = NOTHING;
  const open = [path];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const at = next;
    const stats = looked(() => lstatSync(at));
    if (stats === "unread") all = { ...all, unread: all.unread + 1 };
    if (typeof stats === "string") continue;
    if (!stats.isDirectory()) {
      all = sum([all, measured(stats)]);
      continue;
    }
    const names = looked(() => readdirSync(at));
    if (names === "unread") all = { ...all, unread: all.unread + 1 };
    // One by one: so many arguments as a folder may have names are more than a call may have.
    if (typeof names !== "string") for (const name of names) open.push(join(at, name));
  }
  return all;
}

const measured = ({ size, mtimeMs }: Stats): Measured => {
  return { files: 1, bytes: size, unread: 0, changedAtMs: mtimeMs };
};

/** Folders and files alike; a folder that is a link is none of ours. */
function namesIn(folder: string): readonly string[] {
  const stats = looked(() => lstatSync(folder));
  if (typeof stats === "string" || !stats.isDirectory()) return [];
  const names = looked(() => readdirSync(folder));
  return typeof names === "string" ? [] : [...names].sort(byCodeUnit);
}

function looked<Value>(look: () => Value): Value | "gone" | "unread" {
  try {
    return look();
  } catch (error) {
    const isOneOf = (...codes: readonly string[]): boolean =>
      codes.some((code) => hasErrorCode(error, code));
    if (isOneOf("ENOENT", "ENOTDIR")) return "gone";
    if (isOneOf("EACCES", "EPERM")) return "unread";
    throw error;
  }
}
