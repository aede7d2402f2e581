/**
 * @file What a collection would remove from a fleet's state folder, by the rules of `keep:`. Changes nothing.
 *
 * What is a job's, and what the store may spare, only Temporal can say: where it does not answer, those stay, and the plan says why.
 */

import { existsSync } from "node:fs";
import { join } from "node:path";
import { openHistory, type HistoryDatabase } from "../../console/history/database.ts";
import type { KeepRule, KeepRules } from "../../domain/fleet/keep.ts";
import { tenantId } from "../../domain/values/ids.ts";
import type { UpState } from "../../workers/state.ts";
import { HISTORY } from "../up/backup.ts";
import { storeDirsOf } from "../up/places.ts";
import { bytesOf, dueOf, type Due, type Kept } from "./due.ts";
import {
  archivedRuns,
  checkpointFolders,
  launchFolders,
  processLogs,
  spareValues,
  type JobFolder,
} from "./found.ts";
import { freeSpaces, type FreeSpace } from "./free-space.ts";
import { endedJobs, type EndedJobs, type JobEnd, type RecordedEnds } from "./job-ends.ts";
import { wantedCheckpoints } from "./wanted-checkpoints.ts";
import { marked, rootsOf, type StoreReaders } from "./store-marks.ts";
import { readNotedEnds, type NotedEnd, type NotedEnds } from "./noted-ends.ts";

export interface HousePlace {
  readonly fleet: string;
  readonly stateDir: string;
  readonly rules: KeepRules;
  readonly state: UpState | undefined;
  readonly nowMs: number;
}

export type KindName = "checkpoints" | "output" | "archives" | "logs" | "store";

export interface PlannedKind extends Due {
  readonly what: KindName;
  /** Of all that was looked at, due or not. */
  readonly bytes: number;
  /** Of what no rule takes now, because it is held back. */
  readonly heldBytes: number;
}

export interface CollectionPlan {
  readonly kinds: readonly PlannedKind[];
  /** Of the history database. */
  readonly oldRows: number;
  readonly databases: readonly FreeSpace[];
  /** To be noted, of the jobs of the folders here. */
  readonly ends: NotedEnds;
  /** What was not looked at, and why. */
  readonly skipped: readonly string[];
}

/** `asked`: who can be asked; or why nobody can. */
export async function planOf(
  place: HousePlace,
  asked: StoreReaders | string,
): Promise<CollectionPlan> {
  const { stateDir, rules, nowMs } = place;
  const plan = (what: KindName, things: readonly Kept[]): PlannedKind => ({
    what,
    bytes: bytesOf(things),
    heldBytes: bytesOf(things.filter(({ held }) => held !== undefined)),
    ...dueOf(things, rules[what], nowMs),
  });
  const kinds = [
    plan("archives", archivedRuns(stateDir)),
    plan("logs", processLogs(stateDir, place.state)),
  ];
  const files = await readHistory(place);
  const rest = { oldRows: files.oldRows, databases: await freeSpaces(place) };
  if (typeof asked === "string")
    return {
      ...{ kinds, ...rest, ends: new Map() },
      skipped: [`checkpoints, output of launches and the store stay: ${asked}`],
    };
  const jobs = await jobThings(place, endedJobs(asked.client, files.ends), files.ends);
  const skipped: string[] = [];
  try {
    kinds.push(
      await withoutWanted(
        (things) => plan("checkpoints", things),
        jobs.checkpoints,
        () => wantedCheckpoints(asked.client, place.fleet),
      ),
    );
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    skipped.push(`checkpoints stay: the files of open jobs cannot be read: ${why}`);
  }
  kinds.push(plan("output", jobs.output));
  try {
    const marks = marked(storeDirsOf(stateDir), await rootsOf(asked, place.fleet));
    const spare = plan("store", spareValues(stateDir, marks));
    // The table in force is always there: this is the store of another fleet of that name.
    if (marks.size === 0 && spare.due.length > 0)
      skipped.push(
        `the store stays: fleet ${place.fleet} names none of its values. Is it the fleet of this namespace?`,
      );
    else kinds.push(spare);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    skipped.push(`the store stays: the histories that refer to it cannot be read: ${why}`);
  }
  return { kinds, ...rest, ends: jobs.ends, skipped };
}

async function readHistory({
  stateDir,
  rules,
  nowMs,
}: HousePlace): Promise<{ readonly ends: RecordedEnds; readonly oldRows: number }> {
  const file = join(stateDir, HISTORY);
  if (!existsSync(file)) return { ends: new Map(), oldRows: 0 };
  const database = await openHistory(file, { isNew: false });
  try {
    const { forMs } = rules.history;
    return {
      ends: recordedEnds(database),
      oldRows: forMs === undefined ? 0 : database.countEnded(nowMs - forMs),
    };
  } finally {
    database.close();
  }
}

/** Of jobs whose leases are all given back, by their last run. */
const recordedEnds = (database: HistoryDatabase): RecordedEnds =>
  new Map(
    database
      .all<{ readonly job: string; readonly tenant: string; readonly endedMs: number }>(
        "SELECT job, tenant, max(endedMs) AS endedMs FROM jobs WHERE NOT EXISTS (SELECT 1 FROM leases WHERE leases.job = jobs.job AND leases.freedMs IS NULL) GROUP BY job",
        {},
      )
      .map(({ job, tenant, endedMs }) => [job, { endedMs, tenant: tenantId(tenant) }] as const),
  );

interface JobThings {
  readonly checkpoints: readonly Kept[];
  readonly output: readonly Kept[];
  readonly ends: NotedEnds;
}

/** Jobs that are asked for at once. */
const ASKED_AT_ONCE = 16;

async function jobThings(
  { stateDir, rules, nowMs }: HousePlace,
  jobs: EndedJobs,
  recorded: RecordedEnds,
): Promise<JobThings> {
  const launches = isLimited(rules.output) ? launchFolders(stateDir) : [];
  const tenants = new Map(
    launches.flatMap(({ job, tenant }) =>
      job === undefined || tenant === undefined ? [] : [[job, tenant] as const],
    ),
  );
  const known = new Set([...recorded.keys(), ...tenants.keys()]);
  const checkpoints = checkpointFolders(stateDir, known, (job) => tenants.get(job));
  const names = [...new Set([...checkpoints, ...launches].flatMap(({ job }) => job ?? []))];
  const ends = new Map<string, JobEnd>();
  for (let at = 0; at < names.length; at += ASKED_AT_ONCE)
    await Promise.all(
      names.slice(at, at + ASKED_AT_ONCE).map(async (job) => {
        ends.set(job, await jobs.endOf(job));
      }),
    );
  const before = readNotedEnds(stateDir);
  const noted = new Map(
    names.flatMap((job) => {
      const note = noteOf(ends.get(job), before.get(job) ?? { atMs: nowMs, isProven: false });
      return note === undefined ? [] : [[job, note] as const];
    }),
  );
  const kept = (folder: JobFolder): Kept => keptFolder(folder, ends, noted);
  return { checkpoints: checkpoints.map(kept), output: launches.map(kept), ends: noted };
}

/** Those that open jobs or jobs of schedules are to go on from stay; who they are is asked only where something would go. */
async function withoutWanted(
  plan: (things: readonly Kept[]) => PlannedKind,
  checkpoints: readonly Kept[],
  wanted: () => Promise<ReadonlySet<string>>,
): Promise<PlannedKind> {
  const planned = plan(checkpoints);
  if (planned.due.length === 0) return planned;
  const jobs = await wanted();
  return plan(
    checkpoints.map((kept) =>
      kept.job !== undefined && jobs.has(kept.job)
        ? { ...kept, held: "a job that has not ended, or is on a schedule, is to go on from it" }
        : kept,
    ),
  );
}

/** `unknown`: what holds where nobody knows the job. */
function noteOf(end: JobEnd | undefined, unknown: NotedEnd): NotedEnd | undefined {
  if (end?.kind === "unknown") return unknown;
  const atMs = end?.kind === "ended" ? end.atMs : end?.closedMs;
  if (atMs === undefined) return undefined;
  return { atMs, isProven: true, ...(end?.tenant !== undefined && { tenant: end.tenant }) };
}

const isLimited = ({ mostBytes, tenantBytes, tenants }: KeepRule): boolean =>
  mostBytes !== undefined || tenantBytes !== undefined || (tenants?.size ?? 0) > 0;

/** What was written after its job had ended, perhaps by another job, is as young as that. */
function keptFolder(
  { path, job, size, held, ...folder }: JobFolder,
  ends: ReadonlyMap<string, JobEnd>,
  noted: NotedEnds,
): Kept {
  const end = job === undefined ? undefined : ends.get(job);
  const note = job === undefined ? undefined : noted.get(job);
  const told = end === undefined || end.kind === "unknown" ? note?.tenant : end.tenant;
  const tenant = told ?? folder.tenant;
  const base = {
    ...{ path, bytes: size.bytes, files: size.files, changedAtMs: size.changedAtMs },
    ...(job !== undefined && { job }),
    ...(tenant !== undefined && { tenant }),
  };
  if (held !== undefined) return { ...base, held };
  if (end?.kind === "held") return { ...base, held: end.why };
  if (note === undefined) return { ...base, held: "nothing says which job it is of" };
  return {
    ...base,
    endedMs: Math.max(note.atMs, size.changedAtMs),
    ...(!note.isProven && { isUnproven: true as const }),
  };
}
