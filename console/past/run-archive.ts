/**
 * @file Keeps the histories of the fleet's runs that are over, because Temporal drops them after its retention: one packed file a run, in a folder
 * of its owner's alone. What is kept is read from there, all else from Temporal.
 *
 * A file has the events as the server gave them, so encrypted payloads stay so. It appears by rename, whole. Beyond `mostBytes` the oldest
 * runs go; whatever is not named as the archive names its files is left alone. A console keeps each run when the next one begins, and at its start
 * those before that it finds neither here nor gone: the oldest first, so that those before a kept run need no look again.
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
import { hasErrorCode } from "../../lib/error-code.ts";

/** The history of a run that is over, page by page; fails with the server's error where there is none. */
export type RunPages = (runId: string) => AsyncIterable<readonly HistoryEvent[]>;

export interface RunArchive {
  /** From the archive; where that has none, or a damaged one, from Temporal. */
  readonly pages: RunPages;
  /**
   * Keeps the run and those before it, back to one that is kept or gone, the oldest first. One call after the other; fails with the trouble of disk or
   * server, and the next call goes on from there.
   */
  readonly keep: (runId: string | undefined) => Promise<void>;
}

export interface RunArchiveOptions {
  readonly folder: string;
  readonly mostBytes: number;
  readonly fromTemporal: RunPages;
}

/** One call reaches back no further. */
const MOST_RUNS = 500;
const ENDING = ".history.gz";
/** A run's id comes from the server; a file is named by it alone. */
const RUN_ID = String.raw`[\w-]{1,80}`;
const WHOLE = new RegExp(String.raw`^${RUN_ID}\.history\.gz$`);
/** Whether a file of an archive is a run, whole. */
export const isArchivedRun = (name: string): boolean => WHOLE.test(name);
/** What a console that died left half written. */
const HALF = new RegExp(
  String.raw`^${RUN_ID}\.history\.gz\.[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`,
);
const { History } = proto.temporal.api.history.v1;
const pack = promisify(gzip);
const unpack = promisify(gunzip);

export function createRunArchive({
  folder,
  mostBytes,
  fromTemporal,
}: RunArchiveOptions): RunArchive {
  const fileOf = (runId: string): string | undefined =>
    WHOLE.test(`${runId}${ENDING}`) ? join(folder, `${runId}${ENDING}`) : undefined;

  /** Fails where there is a file that cannot be read. */
  async function kept(runId: string): Promise<readonly HistoryEvent[] | undefined> {
    const file = fileOf(runId);
    if (file === undefined) return undefined;
    try {
      return History.decode(await unpack(await readFile(file))).events;
    } catch (error) {
      if (hasErrorCode(error, "ENOENT")) return undefined;
      throw new Error(`${file} cannot be read`, { cause: error });
    }
  }

  async function* pages(runId: string): AsyncGenerator<readonly HistoryEvent[]> {
    let damage: unknown;
    const found = await kept(runId).catch((error: unknown) => void (damage = error));
    if (found !== undefined) return yield found;
    try {
      yield* fromTemporal(runId);
    } catch (error) {
      throw damage !== undefined && isGone(error) ? damage : error;
    }
  }

  /** The run and those before it that are neither kept nor gone, the newest first. */
  async function missing(newest: string | undefined): Promise<readonly string[]> {
    const found: string[] = [];
    let runId = newest;
    while (runId !== undefined && found.length < MOST_RUNS) {
      const file = fileOf(runId);
      if (file === undefined || (await sizeOf(file)) !== undefined) break;
      try {
        const first = await firstEvent(fromTemporal(runId));
        found.push(runId);
        const { continuedExecutionRunId } = first?.workflowExecutionStartedEventAttributes ?? {};
        runId = continuedExecutionRunId || undefined;
      } catch (error) {
        if (!isGone(error)) throw error;
        break;
      }
    }
    return found;
  }

  async function keepOne(runId: string): Promise<void> {
    const file = fileOf(runId);
    if (file === undefined) return;
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
  }

  async function keep(newest: string | undefined): Promise<void> {
    await mkdir(folder, { recursive: true, mode: PRIVATE_DIR });
    const runs = await missing(newest);
    for (const runId of [...runs].reverse()) {
      // Temporal drops the oldest, perhaps just now.
      await keepOne(runId).catch((error: unknown) => {
        if (!isGone(error)) throw error;
      });
    }
    await collect();
  }

  async function collect(): Promise<void> {
    const entries = await readdir(folder, { withFileTypes: true });
    const names = entries.flatMap((entry) => (entry.isFile() ? [entry.name] : []));
    const found = await Promise.all(
      names
        .filter((name) => WHOLE.test(name))
        .map(async (name) => {
          const file = join(folder, name);
          const { size, mtimeMs } = await stat(file);
          return { file, size, mtimeMs };
        }),
    );
    const halves = names.filter((name) => HALF.test(name)).map((name) => join(folder, name));
    const whole = found.sort((a, b) => b.mtimeMs - a.mtimeMs || (a.file < b.file ? -1 : 1));
    let bytes = 0;
    const over = whole.filter(({ size }) => (bytes += size) > mostBytes);
    for (const file of [...halves, ...over.map((one) => one.file)]) await rm(file, { force: true });
  }

  return { pages, keep };
}

async function firstEvent(
  pages: AsyncIterable<readonly HistoryEvent[]>,
): Promise<HistoryEvent | undefined> {
  for await (const [first] of pages) if (first !== undefined) return first;
  return undefined;
}

async function sizeOf(file: string): Promise<number | undefined> {
  try {
    return (await stat(file)).size;
  } catch {
    return undefined;
  }
}
