/** @file `orbweaver hold JOB…`: takes waiting jobs out of the queue until they are released. */

import type { Command } from "commander";
import { addChosenJobsOptions, type ChosenJobsValues } from "../../command/chosen-jobs.ts";
import {
  addServiceOptions,
  type ConnectionOptionValues,
} from "../../command/connection-options.ts";
import { forEachJob } from "../../command/each-job.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";

interface HoldValues extends ConnectionOptionValues, ChosenJobsValues {
  readonly json?: boolean;
}

export function holdVerb(context: CommandContext): Command {
  const verb = addChosenJobsOptions(
    context
      .verb("hold")
      .summary("hold waiting jobs")
      .description(
        "Takes waiting jobs out of the queue until `orbweaver release`: those named, or all that fit the flags, which choose among waiting jobs as in `orbweaver list`. A running job cannot be held.",
      )
      .argument("[job...]", "job ids"),
  )
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver hold train-7", "hold one job"],
        ["orbweaver hold --label sweep=lr-7", "hold what waits of a sweep"],
      ]),
    )
    .action(async (jobIds: readonly string[], values: HoldValues) => {
      const choice = { jobIds, values, verb: "hold", states: ["pending"] as const };
      await forEachJob(context, { jobIds, values, choice }, (job) => job.hold());
    });
  return addServiceOptions(verb);
}
