/** @file `orbweaver suspend JOB…`: takes GPUs from running jobs, after a checkpoint, until they are resumed. */

import type { Command } from "commander";
import { addChosenJobsOptions, type ChosenJobsValues } from "../../command/chosen-jobs.ts";
import {
  addServiceOptions,
  type ConnectionOptionValues,
} from "../../command/connection-options.ts";
import { forEachJob } from "../../command/each-job.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";

interface SuspendValues extends ConnectionOptionValues, ChosenJobsValues {
  readonly json?: boolean;
}

export function suspendVerb(context: CommandContext): Command {
  const verb = addChosenJobsOptions(
    context
      .verb("suspend")
      .summary("stop running jobs until they are resumed")
      .description(
        "Stops running jobs, named or chosen by flags as in `orbweaver list`: each writes a checkpoint if it can, gives its GPUs back, and is held until `orbweaver resume`. It keeps its age, its time limit counts on where it stopped, and no retry is charged; a deadline goes on. A waiting job is held.",
      )
      .argument("[job...]", "job ids"),
  )
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver suspend train-7", "give its GPUs to others for a while"],
        ["orbweaver suspend --me --label sweep=lr-7", "a whole sweep"],
      ]),
    )
    .action(async (jobIds: readonly string[], values: SuspendValues) => {
      const choice = { jobIds, values, verb: "suspend", states: ["pending", "running"] as const };
      await forEachJob(context, { jobIds, values, choice }, (job) => job.suspend());
    });
  return addServiceOptions(verb);
}
