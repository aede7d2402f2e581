/** @file The words and orders of which a fleet or a job did not believe that their senders may say them: a line for each sender. */

import type { Client } from "@temporalio/client";
import type { JobId } from "../domain/values/ids.ts";
import { disbelievedQuery, JOB_TASK_QUEUE } from "../protocol/messages.ts";
import type { Ledger } from "../scheduling/ledger/ledger.ts";
import { queried } from "./waking.ts";

export interface DisbelievedSender {
  /** Of the last of them. */
  readonly atMs: number;
  /** As its client calls itself; anybody may claim any name. */
  readonly sender: string;
  readonly times: number;
  /** The last of them: its name or its kind, and why it was not believed. */
  readonly what: string;
  readonly why: string;
}

const UNPROVEN = "EntryUnproven";
const REASON = /^a word to the fleet is not believed: (?:([\w-]+): )?(.*)$/s;
const INBOX = "inbox";

/** Oldest first, as far as the fleet's dead letters go back. */
export const disbelievedByFleet = ({
  deadLetters,
}: Pick<Ledger, "deadLetters">): readonly DisbelievedSender[] =>
  deadLetters.flatMap(({ code, atMs, message, sender = "", times = 1 }) => {
    if (code !== UNPROVEN) return [];
    const [, what = INBOX, why = message] = REASON.exec(message) ?? [];
    return [{ atMs, sender, times, what, why }];
  });

/** Of the job's run, or of its last one. */
export async function disbelievedByJob(
  client: Client,
  jobId: JobId,
): Promise<readonly DisbelievedSender[]> {
  const words = await queried(client, `job ${jobId}`, {
    taskQueue: JOB_TASK_QUEUE,
    query: () => client.workflow.getHandle(jobId).query(disbelievedQuery),
  });
  return words.map(({ word, reason, ...rest }) => ({ ...rest, what: word, why: reason }));
}
