/** @file Where the time of a cold request goes, by the history of the job that it brought up. */

import type { Client } from "@temporalio/client";
import { grantSignal } from "../../protocol/messages.ts";

/** Milliseconds of the wall clock. */
export interface ColdMarks {
  readonly askedAtMs: number;
  readonly answeredAtMs: number;
}

export const SPANS = ["submit", "grant", "plan", "start, load and answer"] as const;

/** One for each of `SPANS`; NaN where the history lacks its end. */
export async function coldSpans(
  client: Client,
  jobId: string,
  { askedAtMs, answeredAtMs }: ColdMarks,
): Promise<readonly number[]> {
  const history = await client.workflow.getHandle(jobId).fetchHistory();
  const events = history.events ?? [];
  const atMs = (of: (typeof events)[number] | undefined): number =>
    of === undefined
      ? NaN
      : Number(of.eventTime?.seconds) * 1_000 + Number(of.eventTime?.nanos) / 1e6;
  const grant = events.find(
    ({ workflowExecutionSignaledEventAttributes: signal }) =>
      signal?.signalName === grantSignal.name,
  );
  const run = events.find(
    ({ activityTaskScheduledEventAttributes: activity }) => activity?.activityType?.name === "run",
  );
  const marks = [askedAtMs, ...[events[0], grant, run].map(atMs), answeredAtMs];
  return SPANS.map((_, at) => (marks[at + 1] ?? NaN) - (marks[at] ?? NaN));
}
