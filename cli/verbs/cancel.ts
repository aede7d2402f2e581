/** @file `orbweaver cancel JOB…`: asks jobs to stop; each one is tried, whatever happens to the others. */

import type { Command } from "commander";
import { addConnectionOptions, type ConnectionOptionValues } from "../connection-options.ts";
import { forEachJob } from "../each-job.ts";
import { helpEnd, type Kit } from "../kit.ts";
import { taskAnswer } from "../task-table.ts";

export function cancelVerb(kit: Kit): Command {
  const verb = kit
    .verb("cancel")
    .summary("stop jobs")
    .description(
      "Asks jobs to stop: a running one writes a checkpoint first where it can, a waiting one leaves the queue.\n" +
        "Returns when the wish is noted; `orbweaver status` shows when it is done.",
    )
    .argument("<job...>", "job ids")
    .option("-t, --task <tasks>", "of a job array: only these tasks, e.g. 3,7-9")
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver cancel train-7", "stop one job"],
        ["orbweaver cancel train-7 train-8", "stop two"],
        ["orbweaver cancel sweep-3 --task 3,7-9", "four tasks of an array"],
      ]),
    )
    .action(
      async (
        jobIds: readonly string[],
        values: ConnectionOptionValues & { readonly json?: boolean; readonly task?: string },
      ) => {
        await forEachJob(kit, jobIds, values, async (job) => {
          if (values.task !== undefined)
            return taskAnswer("cancelled", await job.cancelTasks(values.task));
          await job.cancel();
          return "cancelling";
        });
      },
    );
  return addConnectionOptions(verb);
}
