/** @file `orbweaver retry JOB --task TASKS`: runs ended tasks of a job array again, while the array has not ended. */

import type { Command } from "commander";
import {
  addConnectionOptions,
  type ConnectionOptionValues,
} from "../../command/connection-options.ts";
import { forEachJob } from "../../command/each-job.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import { taskAnswer } from "../../command/task-table.ts";

interface RetryValues extends ConnectionOptionValues {
  readonly task: string;
  readonly json?: boolean;
}

export function retryVerb(context: CommandContext): Command {
  const verb = context
    .verb("retry")
    .summary("run tasks of a job array again")
    .description(
      "Queues ended tasks of a job array again, with a fresh count of attempts. An array that has itself ended must be submitted again.",
    )
    .argument("<job>", "job id")
    .requiredOption("-t, --task <tasks>", "tasks to run again, e.g. 3,7-9")
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([["orbweaver retry sweep-3 --task 3,7-9", "run four tasks again"]]),
    )
    .action(async (jobId: string, values: RetryValues) => {
      await forEachJob(context, { jobIds: [jobId], values }, async (job) =>
        taskAnswer("to run again", await job.retryTasks(values.task)),
      );
    });
  return addConnectionOptions(verb);
}
