/** @file `orbweaver resume JOB…`: lets suspended jobs go on from their checkpoints. */

import type { Command } from "commander";
import { OrbweaverError } from "../../../domain/values/failure.ts";
import { addChosenJobsOptions, type ChosenJobsValues } from "../../command/chosen-jobs.ts";
import {
  addServiceOptions,
  type ConnectionOptionValues,
} from "../../command/connection-options.ts";
import { forEachJob } from "../../command/each-job.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";

interface ResumeValues extends ConnectionOptionValues, ChosenJobsValues {
  readonly json?: boolean;
}

export function resumeVerb(context: CommandContext): Command {
  const verb = addChosenJobsOptions(
    context
      .verb("resume")
      .summary("let suspended jobs go on")
      .description(
        "Ends a suspension: of the jobs named, or of all suspended ones that fit the flags, which choose among held jobs as in `orbweaver list`. They wait again with the age of their submission, and go on from their newest checkpoints. A job that was only held is for `orbweaver release`.",
      )
      .argument("[job...]", "job ids"),
  )
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver resume train-7", "one job"],
        ["orbweaver resume --me", "all of yours that are suspended"],
      ]),
    )
    .action(async (jobIds: readonly string[], values: ResumeValues) => {
      const choice = { jobIds, values, verb: "resume", states: ["held"] as const };
      await forEachJob(context, { jobIds, values, choice }, async (job) => {
        const { pause, state } = await job.view();
        if (pause?.kind === "suspend") return await job.release();
        // Of those that flags have chosen, the others stay held.
        if (jobIds.length === 0) return state;
        throw new OrbweaverError(
          "NOT_ALLOWED",
          `job ${job.jobId} is ${state}, not suspended. A held job is for \`orbweaver release\`.`,
        );
      });
    });
  return addServiceOptions(verb);
}
