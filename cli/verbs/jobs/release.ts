/** @file `orbweaver release JOB…`: returns held jobs to the queue with the seniority of their submission. */

import type { Command } from "commander";
import { addChosenJobsOptions, type ChosenJobsValues } from "../../command/chosen-jobs.ts";
import {
  addServiceOptions,
  type ConnectionOptionValues,
} from "../../command/connection-options.ts";
import { forEachJob } from "../../command/each-job.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";

interface ReleaseValues extends ConnectionOptionValues, ChosenJobsValues {
  readonly json?: boolean;
}

export function releaseVerb(context: CommandContext): Command {
  const verb = addChosenJobsOptions(
    context
      .verb("release")
      .summary("release held jobs into the queue")
      .description(
        "Ends a hold: of the jobs named, or of all that fit the flags, which choose among held jobs as in `orbweaver list`. The jobs wait again, with the seniority of their submission.",
      )
      .argument("[job...]", "job ids"),
  )
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver release train-7", "release one job"],
        ["orbweaver release --me", "release all of yours"],
      ]),
    )
    .action(async (jobIds: readonly string[], values: ReleaseValues) => {
      const choice = { jobIds, values, verb: "release", states: ["held"] as const };
      await forEachJob(context, { jobIds, values, choice }, (job) => job.release());
    });
  return addServiceOptions(verb);
}
