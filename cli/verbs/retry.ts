/** @file `orbweaver retry JOB --task TASKS`: runs ended tasks of a job array again, as long as the array has not ended. */

import type { Command } from "commander";
import { addConnectionOptions, type ConnectionOptionValues } from "../connection-options.ts";
import { forEachJob } from "../each-job.ts";
import { helpEnd, type Kit } from "../kit.ts";
import { taskAnswer } from "../task-table.ts";

interface RetryValues extends ConnectionOptionValues {
  readonly task: string;
  readonly json?: boolean;
}

export function retryVerb(kit: Kit): Command {
  const verb = kit
    .verb("retry")
    .summary("run tasks of a job array again")
    .description(
      "Runs tasks of a job array again that have ended, with all their attempts anew.\n" +
        "An array that has ended itself is submitted again instead.",
    )
    .argument("<job>", "job id")
    .requiredOption("-t, --task <tasks>", "which tasks, e.g. 3,7-9")
    .option("--json", "answer with one JSON document")
    .addHelpText("after", helpEnd([["orbweaver retry sweep-3 --task 3,7-9", "four tasks again"]]))
    .action(async (jobId: string, values: RetryValues) => {
      await forEachJob(kit, [jobId], values, async (job) =>
        taskAnswer("to run again", await job.retryTasks(values.task)),
      );
    });
  return addConnectionOptions(verb);
}
