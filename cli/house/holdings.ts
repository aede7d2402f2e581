/**
 * @file What a fleet keeps on this machine, how large it is, who removes it, and what is due by that rule. Only looks: links are counted as links and not
 * followed, and what vanishes or may not be read meanwhile is said, not an error.
 */

import { join } from "node:path";
import { overdue } from "../../agent/runs/retention.ts";
import { AGENTS_KEEP, MOST_ARCHIVE_BYTES } from "../../domain/fleet/keep.ts";
import { byCodeUnit } from "../../domain/values/ids.ts";
import { archiveDirOf, databaseFileOf, logsDirOf, storeDirOf } from "../up/places.ts";
import { HISTORY } from "../up/backup.ts";
import {
  foldersIn,
  leaseFolders,
  measure,
  namesIn,
  sum,
  type Amount,
  type Measured,
} from "./measure.ts";

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

const DAY_MS = 86_400_000;
const { keepMs, keepCount } = AGENTS_KEEP;
/** Of a launch that has ended; of an array's, which has a report in each batch, it is not known. */
const REPORT = "report.json";

export function houseOf(stateDir: string, nowMs: number): House {
  const database = databaseFileOf(stateDir);
  const history = join(stateDir, HISTORY);
  const archive = measure(archiveDirOf(stateDir));
  const launches = leaseFolders(stateDir).map((leases) => launchesOf(leases, nowMs));
  const checkpoints = foldersIn(join(stateDir, "jobs"))
    .map((folder) => ({ folder, ...measure(join(stateDir, "jobs", folder, "checkpoints")) }))
    .filter(({ files }) => files > 0)
    .sort((a, b) => b.bytes - a.bytes || byCodeUnit(a.folder, b.folder));
  const holdings: readonly (Holding & Partial<Measured>)[] = [
    {
      what: "server's database",
      path: database,
      keptBy:
        "Temporal drops histories after the namespace's retention; collection gives free pages back to the disk",
      ...withLogs(database),
    },
    {
      what: "history database",
      path: history,
      keptBy:
        "for good, or collected by `keep.history`: leases and ended jobs, about 200 bytes each",
      ...withLogs(history),
    },
    {
      what: "archived runs",
      path: archiveDirOf(stateDir),
      keptBy: `the console removes the oldest beyond ${MOST_ARCHIVE_BYTES / 2 ** 30} GiB; collection by \`keep.archives\``,
      ...archive,
      due: { files: 0, bytes: Math.max(0, archive.bytes - MOST_ARCHIVE_BYTES), unread: 0 },
    },
    {
      what: "store",
      path: storeDirOf(stateDir),
      keptBy:
        "collection removes what nothing refers to: measured tables of fleet files, rows of lobbies; models stay",
      ...measure(storeDirOf(stateDir)),
    },
    {
      what: "output of launches",
      path: join(stateDir, "hosts"),
      keptBy: `agents remove it each hour: after ${keepMs / DAY_MS} days, or beyond ${keepCount} launches a host; collection beyond the quotas of \`keep.output\``,
      ...sum(launches.map(({ all }) => all)),
      due: sum(launches.map(({ due }) => due)),
    },
    {
      what: "checkpoints",
      path: join(stateDir, "jobs"),
      keptBy: "collection removes those of jobs that have ended, by `keep.checkpoints`",
      ...sum(checkpoints),
    },
    {
      what: "logs of processes",
      path: logsDirOf(stateDir),
      keptBy: "collection removes those of processes that have ended, by `keep.logs`",
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
  return { all: sum(found), due: sum(overdue(over, AGENTS_KEEP, nowMs)) };
}

/** A database of SQLite's with the files beside it. */
const withLogs = (file: string): Measured =>
  sum(["", "-wal", "-shm"].map((ending) => measure(`${file}${ending}`)));
