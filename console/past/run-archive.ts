/**
 * @file Keeps the histories of the fleet's runs that are over, because Temporal drops them after its retention: one packed file a run, in a folder
 * of its owner's alone. What is kept is read from there, all else from Temporal.
 *
 * A file has the events as the server gave them, so encrypted payloads stay so. It appears by rename, whole. Beyond `mostBytes` the oldest
 * runs go. A console keeps each run when the next one begins, and at its start those before that it finds neither here nor gone.
 */

import { randomUUID } from "node:crypto";
import { mkdir, readdir, readFile, rename, rm, stat, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { gunzip, gzip } from "node:zlib";
import proto from "@temporalio/proto";
import { PRIVATE_DIR, PRIVATE_FILE } from "../../access/private-files.ts";
import { isGone } from "../follow/history-pages.ts";
import { msOf, type HistoryEvent } from "../follow/workflow-task.ts";

/** The history of a run that is over, page by page; fails with the server's error where there is none. */
export type RunPages = (runId: string) => AsyncIterable<readonly HistoryEvent[]>;

export interface RunArchive {
  /** From the archive, else from Temporal. */
  readonly pages: RunPages;
  /** Keeps the run and those before it, back to one that is kept or gone. One call after the other; fails with the trouble of disk or server. */
  readonly keep: (runId: string | undefined) => Promise<void>;
}

export interface RunArchiveOptions {
  readonly folder: string;
  readonly mostBytes: number;
  readonly fromTemporal: RunPages;
}

/** Of all kept runs of a fleet: months of a busy one. */
export const MOST_ARCHIVE_BYTES = 2 * 2 ** 30;
/** One call reaches back no further. */
const MOST_RUNS = 500;
const ENDING = ".history.gz";
const { History } = proto.temporal.api.history.v1;
const pack = promisify(gzip);
const unpack = promisify(gunzip);

export function createRunArchive({
  folder,
  mostBytes,
  fromTemporal,
}: RunArchiveOptions): RunArchive {
  // A run's id comes from the server; a file is named by it alone.
  const fileOf = (runId: string): string | undefined =>
    /^[\w-]{1,80}$/.test(runId) ? join(folder, `${runId}${ENDING}`) : undefined;

  async function kept(runId: string): Promise<readonly HistoryEvent[] | undefined> {
    const file = fileOf(runId);
    if (file === undefined) return undefined;
    try {
      return History.decode(await unpack(await readFile(file))).events;
    } catch (error) {
      if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
      throw new Error(`${file} cannot be read`, { cause: error });
    }
  }

  async function* pages(runId: string): AsyncGenerator<readonly HistoryEvent[]> {
    const found = await kept(runId);
    if (found === undefined) yield* fromTemporal(runId);
    else yield found;
  }

  /** The run before it; undefined where it is the first, or the one before is kept. */
  async function keepOne(runId: string): Promise<string | undefined> {
    const file = fileOf(runId);
    if (file === undefined || (await sizeOf(file)) !== undefined) return undefined;
    const events: HistoryEvent[] = [];
    for await (const page of fromTemporal(runId)) events.push(...page);
    const half = `${file}.${randomUUID()}`;
    await writeFile(half, await pack(History.encode({ events: [...events] }).finish()), {
      mode: PRIVATE_FILE,
    });
    // The time of a file is that of its run's end, by which the oldest are found.
    const endedSeconds = msOf(events.at(-1)?.eventTime) / 1_000;
    await utimes(half, endedSeconds, endedSeconds);
    await rename(half, file);
    const started = events[0]?.workflowExecutionStartedEventAttributes;
    return started?.continuedExecutionRunId || undefined;
  }

  async function keep(first: string | undefined): Promise<void> {
    await mkdir(folder, { recursive: true, mode: PRIVATE_DIR });
    let runId = first;
    try {
      for (let runs = 0; runId !== undefined && runs < MOST_RUNS; runs += 1)
        runId = await keepOne(runId);
    } catch (error) {
      if (!isGone(error)) throw error;
    }
    await collect();
  }

  async function collect(): Promise<void> {
    const names = await readdir(folder);
    const found = await Promise.all(
      names.map(async (name) => {
        const file = join(folder, name);
        const { size, mtimeMs } = await stat(file);
        return { file, size, mtimeMs, isWhole: name.endsWith(ENDING) };
      }),
    );
    // A console that died left half a file.
    const halves = found.filter(({ isWhole }) => !isWhole);
    const whole = found
      .filter(({ isWhole }) => isWhole)
      .sort((a, b) => b.mtimeMs - a.mtimeMs || (a.file < b.file ? -1 : 1));
    let bytes = 0;
    const over = whole.filter(({ size }) => (bytes += size) > mostBytes);
    for (const { file } of [...halves, ...over]) await rm(file, { force: true });
  }

  return { pages, keep };
}

async function sizeOf(file: string): Promise<number | undefined> {
  try {
    return (await stat(file)).size;
  } catch {
    return undefined;
  }
}
