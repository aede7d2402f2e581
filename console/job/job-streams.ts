/**
 * @file Follows the histories of the jobs whose pages are open: one reading for all browsers, none where nobody looks.
 *
 * A history is read as the fleet's is, so no worker is asked. It is given up some time after the last browser has gone.
 */

import type { Client } from "@temporalio/client";
import type { PayloadCodec } from "@temporalio/common";
import type { ServerResponse } from "node:http";
import type { JobPage } from "../../page/job-wire.ts";
import { createHub, KEPT_NEWEST, type Hub } from "../http/hub.ts";
import { followJob } from "./follow-job.ts";

export interface JobStreams {
  readonly add: (job: string, response: ServerResponse, lastId: string | undefined) => void;
  /** Jobs that are followed now. */
  readonly count: () => number;
  readonly close: () => void;
}

export interface JobStreamsOptions {
  readonly client: Client;
  readonly codecs: readonly PayloadCodec[];
  readonly fleet: string;
  /** Whether the fleet's ledger has the job: one that came from another fleet. */
  readonly isKnown: (job: string) => boolean;
}

const MOST_JOBS = 64;
/** After the last browser has gone. */
const LEAVE_MS = 30_000;

interface Followed {
  readonly hub: Hub<JobPage>;
  readonly ending: AbortController;
  leaves: NodeJS.Timeout | undefined;
}

export function createJobStreams(options: JobStreamsOptions): JobStreams {
  const jobs = new Map<string, Followed>();
  return {
    add,
    count: () => jobs.size,
    close() {
      for (const job of jobs.keys()) leave(job);
    },
  };

  function add(job: string, response: ServerResponse, lastId: string | undefined): void {
    const followed = jobs.get(job) ?? follow(job);
    if (followed === undefined) {
      response.writeHead(503, { "Retry-After": "30" }).end();
      return;
    }
    clearTimeout(followed.leaves);
    followed.hub.add(response, lastId);
    response.on("close", () => {
      if (followed.hub.count() > 0) return;
      clearTimeout(followed.leaves);
      followed.leaves = setTimeout(() => leave(job), LEAVE_MS).unref();
    });
  }

  function follow(job: string): Followed | undefined {
    for (const [other, { hub }] of jobs)
      if (jobs.size >= MOST_JOBS && hub.count() === 0) leave(other);
    if (jobs.size >= MOST_JOBS) return undefined;
    const { client, codecs, fleet, isKnown } = options;
    let page: JobPage = { job, moments: [], omitted: 0, attempts: [] };
    let told = 0;
    const hub = createHub<JobPage>(() => page, KEPT_NEWEST);
    const ending = new AbortController();
    const followed = { hub, ending, leaves: undefined };
    jobs.set(job, followed);
    void followJob({
      client,
      codecs,
      fleet,
      job,
      isKnown: () => isKnown(job),
      signal: ending.signal,
      tell(now) {
        page = now;
        told += 1;
        // The ids of another process, or of an earlier reading, are none of this one.
        hub.tell(page, { runId: STARTED, event: told });
      },
    });
    return followed;
  }

  function leave(job: string): void {
    const followed = jobs.get(job);
    if (followed === undefined) return;
    jobs.delete(job);
    clearTimeout(followed.leaves);
    followed.ending.abort();
    followed.hub.close();
  }
}

const STARTED = String(Date.now());
