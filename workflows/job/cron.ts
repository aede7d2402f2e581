/**
 * @file One time of a schedule: has the submit service submit its job, and ends. While the service is away this waits, and the schedule skips its next times.
 */

import { proxyActivities, workflowInfo } from "@temporalio/workflow";
import {
  cronTaskQueue,
  type CronActivities,
  type CronInput,
  type CronOutcome,
} from "../../protocol/cron.ts";
import { flawedInput } from "../runtime/signal-intake.ts";

export async function cron(input: CronInput): Promise<CronOutcome> {
  const { startCron } = proxyActivities<CronActivities>({
    taskQueue: cronTaskQueue(input.fleet),
    startToCloseTimeout: "1m",
    retry: { maximumInterval: "1m" },
    summary: `a job of ${input.cron}`,
  });
  return await startCron(input, plannedMs(), flawedInput());
}

/** The time that the schedule meant, however much later this begins. */
function plannedMs(): number {
  const { startTime, typedSearchAttributes } = workflowInfo();
  const planned = typedSearchAttributes
    .getAll()
    .find(({ key }) => key.name === "TemporalScheduledStartTime")?.value;
  return (planned instanceof Date ? planned : startTime).getTime();
}
