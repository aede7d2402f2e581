/**
 * @file What a cluster remembers of the messages that jobs sent: one record a job, its latest word (bounded-records.ts).
 *
 * At most `MAX_SENDERS`, of one tenant, class and name at most `MAX_PER_NAME`. Pure. Cost: O(records) a word.
 */

import { JOB_CLASSES } from "../../domain/job/job.ts";
import { readSentParts, type KeptMessages } from "../../domain/bandwidth/sent-messages.ts";
import { isFields } from "../../lib/fields.ts";
import { withRecord } from "./bounded-records.ts";
import { isCount, isWord } from "./step-memory.ts";

export const MAX_SENDERS = 256;
export const MAX_PER_NAME = 8;
const MAX_TEXT = 300;

/** Undefined for a word about something else, and for junk. */
export function readSentNote(word: unknown): KeptMessages | undefined {
  if (!isFields(word)) return undefined;
  const { jobId, tenant, name, gpus, model, atMs } = word;
  const sent = readSentParts(word["sent"]);
  const jobClass = JOB_CLASSES.find((each) => each === word["class"]);
  const isNoted =
    sent !== undefined &&
    jobClass !== undefined &&
    isWord(jobId) &&
    isWord(tenant) &&
    isText(name) &&
    (model === undefined || isText(model)) &&
    isCount(gpus) &&
    gpus > 1 &&
    isCount(atMs);
  if (!isNoted) return undefined;
  const sender = { tenant, class: jobClass, name, gpus, ...(model !== undefined && { model }) };
  return { ...sender, run: jobId, sent, atMs };
}

export const withSent = (
  records: readonly KeptMessages[],
  record: KeptMessages,
): readonly KeptMessages[] =>
  withRecord(records, record, {
    groupOf: ({ tenant, class: jobClass, name }) => [tenant, jobClass, name].join("\n"),
    mostInGroup: MAX_PER_NAME,
    most: MAX_SENDERS,
  });

const isText = (value: unknown): value is string =>
  typeof value === "string" && value.length > 0 && value.length <= MAX_TEXT;
