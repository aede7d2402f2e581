/** @file `orbweaver cancel JOB…`: requests the cancellation of jobs; a failure for one does not stop the others. */

import type { Command } from "commander";
import {
  addConnectionOptions,
  type ConnectionOptionValues,
} from "../../command/connection-options.ts";
import { forEachJob } from "../../command/each-job.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import { taskAnswer } from "../../command/task-table.ts";

export function cancelVerb(context: CommandContext): Command {
  const verb = context
    .verb("cancel")
    .summary("cancel jobs")
    .description(
      "Requests the cancellation of jobs. A waiting job leaves the queue; a running job writes a checkpoint first if it can. Returns when the request is recorded; `orbweaver status` shows when the job has ended.",
    )
    .argument("<job...>", "job ids")
    .option("-t, --task <tasks>", "cancel only these tasks of a job array, e.g. 3,7-9")
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver cancel train-7", "cancel one job"],
        ["orbweaver cancel train-7 train-8", "cancel two jobs"],
        ["orbweaver cancel sweep-3 --task 3,7-9", "cancel four tasks of an array"],
      ]),
    )
    .action(
      async (
        jobIds: readonly string[],
        values: ConnectionOptionValues & { readonly json?: boolean; readonly task?: string },
      ) => {
        await forEachJob(context, { jobIds, values }, async (job) => {
          if (values.task !== undefined)
            return taskAnswer("cancelled", await job.cancelTasks(values.task));
          await job.cancel();
          return "cancelling";
        });
      },
    );
  return addConnectionOptions(verb);
}
