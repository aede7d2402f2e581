/** @file Follows the history of one job over all its runs to its end, and tells its page whenever something was added. */

import type { Client } from "@temporalio/client";
import type { PayloadCodec } from "@temporalio/common";
import { setTimeout as sleep } from "node:timers/promises";
import type { JobPage } from "../../page/job-wire.ts";
import { DEFAULT_FLEET } from "../../protocol/messages.ts";
import { endOf, isGone, pagesOf } from "../follow/history-pages.ts";
import { codecsFor, decoded, msOf, valueOf, type HistoryEvent } from "../follow/workflow-task.ts";
import { createJobLife } from "./job-life.ts";
import { createJobReader } from "./job-reader.ts";

export interface FollowedJob {
  readonly client: Client;
  readonly codecs: readonly PayloadCodec[];
  readonly fleet: string;
  readonly job: string;
  readonly isKnown: () => boolean;
  readonly signal: AbortSignal;
  readonly tell: (page: JobPage) => void;
}

const RETRY_MS = 1_000;

/** Resolves when the job's history has ended, cannot be shown, or the signal ends it. */
export async function followJob(options: FollowedJob): Promise<void> {
  const { signal, tell, job } = options;
  let page: JobPage = { job, moments: [], omitted: 0, attempts: [] };
  while (!signal.aborted) {
    try {
      await readJob({ ...options, tell: (now) => tell((page = now)) });
      return;
    } catch (error) {
      if (signal.aborted) return;
      const why = error instanceof Error ? error.message : String(error);
      if (isGone(error)) return tell({ ...page, trouble: `there is no history of ${job}: ${why}` });
      tell({ ...page, trouble: why });
      // Ends early with the signal.
      await sleep(RETRY_MS, undefined, { signal }).catch(() => undefined);
    }
  }
}

/** The page of a job by what its history has now, with all of its leases; undefined where there is none. */
export async function readJobPage(
  options: Pick<FollowedJob, "client" | "codecs" | "job" | "fleet" | "signal">,
): Promise<JobPage | undefined> {
  let page: JobPage | undefined;
  try {
    await readJob({
      ...options,
      isKnown: () => true,
      isFollowed: false,
      mostAttempts: Infinity,
      tell: (now) => void (page = now),
    });
  } catch (error) {
    if (!isGone(error)) throw error;
  }
  return page;
}

async function readJob({
  client,
  codecs: shared,
  fleet,
  job,
  isKnown,
  signal,
  tell,
  isFollowed = true,
  mostAttempts,
}: FollowedJob & {
  readonly isFollowed?: boolean;
  readonly mostAttempts?: number;
}): Promise<void> {
  const life = createJobLife(job, mostAttempts === undefined ? {} : { mostAttempts });
  const codecs = codecsFor(shared, job);
  const reader = createJobReader(codecs);
  let runId: string | undefined = "";
  let isFirst = true;
  while (runId !== undefined) {
    const execution: { workflowId: string; runId: string } = { workflowId: job, runId };
    runId = undefined;
    for await (const events of pagesOf({ client, signal, execution, isFollowed })) {
      const [first] = events;
      if (isFirst && first !== undefined) {
        const why = (await strangerText(first, codecs, fleet)) ?? "";
        if (why !== "" && !isKnown()) return tell({ ...life.page(), trouble: `${job} ${why}` });
        isFirst = false;
      }
      for (const event of events) await foldEvent(event);
      if (isFollowed && events.length > 0) tell(life.page());
      runId = endOf(events)?.nextRunId;
    }
  }
  if (!isFollowed) tell(life.page());

  /** Anybody may signal a job, so one event that cannot be read must not hide the others. */
  async function foldEvent(event: HistoryEvent): Promise<void> {
    const atMs = msOf(event.eventTime);
    try {
      const fact = await reader.read(event);
      if (fact !== undefined) life.fold(fact, atMs);
    } catch {
      const text = `event ${String(event.eventId)} of its history cannot be read`;
      life.fold({ kind: "said", as: "order", text }, atMs);
    }
  }
}

/** Why a workflow is no job that was submitted to this fleet; undefined when it is one. */
async function strangerText(
  first: HistoryEvent,
  codecs: readonly PayloadCodec[],
  fleet: string,
): Promise<string | undefined> {
  const started = first.workflowExecutionStartedEventAttributes;
  const type = started?.workflowType?.name ?? "";
  if (type !== "job") return "is no job";
  const options = valueOf(await decoded(started?.input?.payloads?.[1], codecs));
  const isNamed = typeof options === "object" && options !== null && "fleet" in options;
  const home = isNamed && typeof options.fleet === "string" ? options.fleet : DEFAULT_FLEET;
  return home === fleet ? undefined : `is a job of fleet ${home}`;
}
