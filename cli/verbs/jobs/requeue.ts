/** @file `orbweaver requeue JOB…`: stops running jobs, after a checkpoint, and puts them back into the queue at once. */

import type { Command } from "commander";
import { addChosenJobsOptions, type ChosenJobsValues } from "../../command/chosen-jobs.ts";
import {
  addServiceOptions,
  type ConnectionOptionValues,
} from "../../command/connection-options.ts";
import { forEachJob } from "../../command/each-job.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";

interface RequeueValues extends ConnectionOptionValues, ChosenJobsValues {
  readonly json?: boolean;
}

export function requeueVerb(context: CommandContext): Command {
  const verb = addChosenJobsOptions(
    context
      .verb("requeue")
      .summary("stop running jobs and put them back into the queue")
      .description(
        "Stops running jobs, named or chosen by flags as in `orbweaver list`: each writes a checkpoint if it can, gives its GPUs back, and waits again with its age. No retry is charged, and the next run has the whole time limit and all changes made by `orbweaver update`.",
      )
      .argument("[job...]", "job ids"),
  )
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver requeue train-7", "start it anew"],
        ["orbweaver requeue --cluster eu-1 --yes", "whatever runs in a cluster"],
      ]),
    )
    .action(async (jobIds: readonly string[], values: RequeueValues) => {
      const choice = { jobIds, values, verb: "requeue", states: ["running"] as const };
      await forEachJob(context, { jobIds, values, choice }, (job) => job.requeue());
    });
  return addServiceOptions(verb);
}
