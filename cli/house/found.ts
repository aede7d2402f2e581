/** @file What lies in a fleet's state folder that a rule may take: whose it is, how large, and when it was over, as far as files tell. */

import { lstatSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { BATCHES } from "../../agent/folder/launch-files.ts";
import { isAlive } from "../../agent/system/process-identity.ts";
import { folderName } from "../../agent/system/state-layout.ts";
import { hashIn, isStored } from "../../activities/store.ts";
import { isArchivedRun } from "../../console/past/run-archive.ts";
import { tenantId, type TenantId } from "../../domain/values/ids.ts";
import { parsedJson } from "../../lib/parsed-json.ts";
import type { UpState } from "../../workers/state.ts";
import { archiveDirOf, logsDirOf, storeDirsOf } from "../up/places.ts";
import type { Kept } from "./due.ts";
import { foldersIn, leaseFolders, measure, namesIn, type Measured } from "./measure.ts";

/** What a job left in one folder. */
export interface JobFolder {
  readonly path: string;
  /** Absent where a long id is only in the folder's name as its hash. */
  readonly job?: string;
  readonly tenant?: TenantId;
  readonly size: Measured;
  /** Why it cannot go, whatever becomes of its job. */
  readonly held?: string;
}

/** `known`: ids of jobs, for folders whose names have not the whole id. */
export function checkpointFolders(
  stateDir: string,
  known: Iterable<string>,
  tenantOf: (job: string) => TenantId | undefined,
): readonly JobFolder[] {
  const jobs = join(stateDir, "jobs");
  const byFolder = new Map([...known].map((job) => [folderName(job), job] as const));
  return foldersIn(jobs).flatMap((folder): readonly JobFolder[] => {
    const path = join(jobs, folder, "checkpoints");
    if (!isFolder(path)) return [];
    const size = measure(path);
    const job = byFolder.get(folder) ?? jobIn(folder);
    const tenant = job === undefined ? undefined : tenantOf(job);
    return [
      { path, size, ...(job !== undefined && { job }), ...(tenant !== undefined && { tenant }) },
    ];
  });
}

function jobIn(folder: string): string | undefined {
  try {
    const job = decodeURIComponent(folder);
    return folderName(job) === folder ? job : undefined;
  } catch {
    return undefined;
  }
}

const REPORT = "report.json";

/** Launches of all hosts of this machine. */
export const launchFolders = (stateDir: string): readonly JobFolder[] =>
  leaseFolders(stateDir).flatMap((leases) =>
    foldersIn(leases)
      .filter((name) => !name.startsWith("."))
      .map((name) => launchIn(join(leases, name))),
  );

/** A lease of a job array has a launch in each of its batches. */
function launchIn(path: string): JobFolder {
  const batches = namesIn(join(path, BATCHES)).map((seq) => join(path, BATCHES, seq));
  const launches = batches.length > 0 ? batches : [path];
  const order = launches.map(orderIn).find((found) => found !== undefined);
  const isOver = launches.every((launch) => namesIn(launch).includes(REPORT));
  return {
    path,
    size: measure(path),
    ...order,
    ...(!isOver && { held: "its agent has not reported its end" }),
  };
}

function orderIn(launch: string): { readonly job: string; readonly tenant?: TenantId } | undefined {
  const text = textOf(join(launch, "order.json"));
  const { order } = (parsedJson(text ?? "") ?? {}) as {
    readonly order?: { readonly jobId?: unknown; readonly holder?: { readonly tenant?: unknown } };
  };
  const { jobId, holder } = order ?? {};
  if (typeof jobId !== "string") return undefined;
  const tenant = holder?.tenant;
  return { job: jobId, ...(typeof tenant === "string" && { tenant: tenantId(tenant) }) };
}

/** Oldest runs first; the newest stays, because a console looks from there back. */
export function archivedRuns(stateDir: string): readonly Kept[] {
  const folder = archiveDirOf(stateDir);
  const runs = filesOf(folder, isArchivedRun);
  const newestMs = Math.max(...runs.map(({ endedMs }) => endedMs));
  return runs.map((run) =>
    run.endedMs === newestMs ? { ...run, held: "the newest run of the fleet" } : run,
  );
}

/** Of processes that `up` started. One that lives may be silent for long. */
export function processLogs(stateDir: string, state: UpState | undefined): readonly Kept[] {
  const processes = [...(state?.workers ?? []), ...(state?.server ? [state.server] : [])];
  const open = new Set(processes.filter(isAlive).map(({ logFile }) => logFile));
  return filesOf(logsDirOf(stateDir), (name) => name.endsWith(".log")).map((log) =>
    open.has(log.path) ? { ...log, held: "its process runs" } : log,
  );
}

/** Also what was half written by a process that died. */
export const spareValues = (stateDir: string, marks: ReadonlySet<string>): readonly Kept[] =>
  storeDirsOf(stateDir).flatMap((folder) =>
    filesOf(folder, (name) => isStored(name) && !marks.has(hashIn(name) ?? "")),
  );

const filesOf = (
  folder: string,
  isOurs: (name: string) => boolean,
): readonly (Kept & { readonly endedMs: number })[] =>
  namesIn(folder)
    .filter(isOurs)
    .flatMap((name) => {
      const path = join(folder, name);
      const stats = lstatSync(path, { throwIfNoEntry: false });
      return stats?.isFile() === true
        ? [{ path, bytes: stats.size, files: 1, endedMs: stats.mtimeMs }]
        : [];
    });

const isFolder = (path: string): boolean =>
  lstatSync(path, { throwIfNoEntry: false })?.isDirectory() === true;

function textOf(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return undefined;
  }
}
