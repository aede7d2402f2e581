/** @file Follows the history of one job over all its runs to its end, and tells its page whenever something was added. */

import type { Client } from "@temporalio/client";
import type { PayloadCodec } from "@temporalio/common";
import { setTimeout as sleep } from "node:timers/promises";
import type { JobPage } from "../../page/job-wire.ts";
import { DEFAULT_FLEET } from "../../protocol/messages.ts";
import { endOf, pagesOf } from "../follow/history-pages.ts";
import { decoded, msOf, valueOf, type HistoryEvent } from "../follow/workflow-task.ts";
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
/** gRPC: no such workflow, or no such id. */
const FINAL_CODES: readonly unknown[] = [3, 5];

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
      if (isFinal(error))
        return tell({ ...page, trouble: `there is no history of ${job}: ${why}` });
      tell({ ...page, trouble: why });
      // Ends early with the signal.
      await sleep(RETRY_MS, undefined, { signal }).catch(() => undefined);
    }
  }
}

const isFinal = (error: unknown): boolean =>
  error instanceof Error && "code" in error && FINAL_CODES.includes(error.code);

async function readJob({
  client,
  codecs,
  fleet,
  job,
  isKnown,
  signal,
  tell,
}: FollowedJob): Promise<void> {
  const life = createJobLife(job);
  const reader = createJobReader(codecs);
  let runId: string | undefined = "";
  let isFirst = true;
  while (runId !== undefined) {
    const execution: { workflowId: string; runId: string } = { workflowId: job, runId };
    runId = undefined;
    for await (const events of pagesOf({ client, signal, execution })) {
      const [first] = events;
      if (isFirst && first !== undefined) {
        const why = (await strangerText(first, codecs, fleet)) ?? "";
        if (why !== "" && !isKnown()) return tell({ ...life.page(), trouble: `${job} ${why}` });
        isFirst = false;
      }
      for (const event of events) await foldEvent(event);
      if (events.length > 0) tell(life.page());
      runId = endOf(events)?.nextRunId;
    }
  }

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
