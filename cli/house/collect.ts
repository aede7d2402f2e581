/**
 * @file Removes what a plan names. Whatever is needed again since the plan was made stays; what a death leaves begun is ended by the next collection.
 *
 * Everything is asked again under its new name: a folder of a job must be as it was, and its job ended still; a file as old as it was.
 */

import { existsSync, lstatSync } from "node:fs";
import { dirname, join } from "node:path";
import { openHistory } from "../../console/history/database.ts";
import { HISTORY } from "../up/backup.ts";
import { archiveDirOf, logsDirOf, storeDirsOf } from "../up/places.ts";
import type { DueThing } from "./due.ts";
import { endedJobs } from "./job-ends.ts";
import { giveBack } from "./free-space.ts";
import { foldersIn, leaseFolders, measure } from "./measure.ts";
import type { CollectionPlan, HousePlace } from "./plan.ts";
import {
  failure,
  putBack,
  realDisk,
  removeAsked,
  removeIfEmpty,
  type Disk,
  type PutBack,
} from "./remove.ts";
import type { StoreReaders } from "./store-marks.ts";
import { wantedCheckpoints } from "./wanted-checkpoints.ts";
import { writeNotedEnds } from "./noted-ends.ts";

export interface Collected {
  readonly things: number;
  readonly files: number;
  readonly bytes: number;
  /** Was due, and is needed again. */
  readonly needed: number;
  readonly rows: number;
  /** By which the server's database is smaller. */
  readonly returnedBytes: number;
  /** A path, and why it could not be removed. */
  readonly failed: readonly string[];
}

export interface CollectOptions {
  readonly asked: StoreReaders | string;
  readonly disk?: Disk;
}

/** What collections that died have begun comes back or is removed. */
export function endFormer(stateDir: string, disk: Disk = realDisk): PutBack {
  const jobs = join(stateDir, "jobs");
  const ended = [
    ...foldersIn(jobs).map((folder) => join(jobs, folder)),
    ...leaseFolders(stateDir),
    ...storeDirsOf(stateDir),
    archiveDirOf(stateDir),
    logsDirOf(stateDir),
  ].map((folder) => putBack(folder, disk));
  return {
    back: ended.reduce((sum, { back }) => sum + back, 0),
    failed: ended.flatMap(({ failed }) => failed),
  };
}

export async function collect(
  plan: CollectionPlan,
  place: HousePlace,
  { asked, disk = realDisk }: CollectOptions,
): Promise<Collected> {
  const { fleet, stateDir, rules, nowMs } = place;
  if (typeof asked !== "string") writeNotedEnds(stateDir, plan.ends);
  const jobs = typeof asked === "string" ? undefined : endedJobs(asked.client, new Map());
  const hasCheckpoints = plan.kinds.some(
    ({ what, due }) => what === "checkpoints" && due.length > 0,
  );
  // Somebody may have been asked for long since the plan was made.
  const wanted =
    typeof asked !== "string" && hasCheckpoints
      ? await wantedCheckpoints(asked.client, fleet)
      : new Set<string>();
  const isOver = async ({ job }: DueThing): Promise<boolean> =>
    job === undefined ||
    (jobs !== undefined && !wanted.has(job) && (await jobs.endOf(job)).kind !== "held");
  const total = { things: 0, files: 0, bytes: 0, needed: 0 };
  const failed: string[] = [];
  const all = plan.kinds.flatMap(({ what, due }) => due.map((thing) => ({ what, thing })));
  for (const { what, thing } of all) {
    const { path, files, bytes } = thing;
    try {
      const removed = await removeAsked(
        path,
        async (aside) => isUnchanged(aside, thing) && (await isOver(thing)),
        disk,
      );
      if (removed === "needed") total.needed += 1;
      if (removed !== "removed") continue;
      total.things += 1;
      total.files += files;
      total.bytes += bytes;
      // The other folders are there for good.
      if (what === "checkpoints") removeIfEmpty(dirname(path), disk);
    } catch (error) {
      failed.push(failure(path, error));
    }
  }
  let rows = 0;
  try {
    if (plan.oldRows > 0) rows = await forgetRows(stateDir, nowMs - (rules.history.forMs ?? nowMs));
  } catch (error) {
    // It may have no room for a copy of itself, or a console may hold it.
    failed.push(failure(join(stateDir, HISTORY), error));
  }
  let returnedBytes = 0;
  try {
    returnedBytes = await giveBack(place);
  } catch (error) {
    failed.push(failure("free pages of the server's database", error));
  }
  return { ...total, rows, returnedBytes, failed };
}

function isUnchanged(aside: string, { job, bytes, changedAtMs, endedMs }: DueThing): boolean {
  if (job === undefined) return lstatSync(aside).mtimeMs === endedMs;
  const found = measure(aside);
  return found.bytes === bytes && found.changedAtMs === changedAtMs;
}

async function forgetRows(stateDir: string, beforeMs: number): Promise<number> {
  const file = join(stateDir, HISTORY);
  if (!existsSync(file)) return 0;
  const database = await openHistory(file, { isNew: true });
  try {
    const rows = database.countEnded(beforeMs);
    database.forgetEnded(beforeMs);
    return rows;
  } finally {
    database.close();
  }
}
