/** @file `orbweaver kill JOB…`: ends jobs at once. The other way to end a job, which lets it finish what it is at, is `cancel`. */

import type { Command } from "commander";
import {
  addServiceOptions,
  type ConnectionOptionValues,
} from "../../command/connection-options.ts";
import { addChosenJobsOptions, type ChosenJobsValues } from "../../command/chosen-jobs.ts";
import { forEachJob } from "../../command/each-job.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import { OPEN_STATES } from "./cancel.ts";

interface KillValues extends ConnectionOptionValues, ChosenJobsValues {
  readonly json?: boolean;
}

export function killVerb(context: CommandContext): Command {
  const verb = addChosenJobsOptions(
    context
      .verb("kill")
      .summary("end jobs at once")
      .description(
        "Ends jobs at once: no checkpoint, no grace, KILL to their processes; also those that are being stopped already. `orbweaver cancel` lets them write a checkpoint first; `cancel --force` is the same as this. Jobs are named, or chosen by the flags of `orbweaver list`; on a terminal it first says how many they are, and asks.",
      )
      .argument("[job...]", "job ids"),
  )
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver kill train-7", "a job that does not stop by itself"],
        ["orbweaver kill --me --label sweep=lr-7 --yes", "a sweep, without a question"],
      ]),
    )
    .action(async (jobIds: readonly string[], values: KillValues) => {
      const choice = { jobIds, values, verb: "kill", states: OPEN_STATES };
      await forEachJob(context, { jobIds, values, choice }, async (job) => {
        await job.cancel({ isForced: true });
        return "killing";
      });
    });
  return addServiceOptions(verb);
}
