/**
 * @file Which addresses a job's file names: read once for a job, from the event that started it, which wakes no worker. Nothing is read where the fleet
 * file lists no addresses.
 */

import type { Client } from "@temporalio/client";
import { firstInput } from "../../client/first-input.ts";
import { parseJobFile } from "../../domain/job/job-file.ts";
import type { JobNotice } from "../../domain/job/job-notice.ts";
import { jobId } from "../../domain/values/ids.ts";
import { isGone, isServersFault } from "../follow/history-pages.ts";

export interface JobAddresses {
  /** Undefined where it was not read yet. */
  readonly of: (job: string) => readonly JobNotice[] | undefined;
  /** Fails with the server's trouble; the next call goes on. */
  readonly learn: (jobs: Iterable<string>) => Promise<void>;
}

/** The notices that the file of a job asks for; fails with the server's trouble. */
export type ReadJobNotices = (job: string) => Promise<readonly JobNotice[]>;

const AT_ONCE = 10;
const MOST_REMEMBERED = 100_000;

export function createJobAddresses(read: ReadJobNotices): JobAddresses {
  const known = new Map<string, readonly JobNotice[]>();
  return {
    of: (job) => known.get(job),
    async learn(jobs) {
      const asked = [...new Set(jobs)].filter((job) => !known.has(job));
      if (known.size + asked.length > MOST_REMEMBERED) known.clear();
      for (let at = 0; at < asked.length; at += AT_ONCE)
        await Promise.all(
          asked.slice(at, at + AT_ONCE).map(async (job) => void known.set(job, await read(job))),
        );
    },
  };
}

/** A workflow that is no job, or whose file cannot be read, asks for none. */
export const noticesInHistory =
  (client: Client): ReadJobNotices =>
  async (job) => {
    try {
      const [file] = (await firstInput(client, jobId(job))) ?? [];
      const parsed = parseJobFile(file);
      return parsed.kind === "parsed" ? parsed.notices : [];
    } catch (error) {
      const cause = error instanceof Error ? error.cause : undefined;
      const fault = [error, cause].find((each) => isServersFault(each) && !isGone(each));
      if (fault !== undefined) throw fault;
      return [];
    }
  };
