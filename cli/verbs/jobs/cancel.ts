/** @file `orbweaver cancel JOB…`: requests the cancellation of jobs; a failure for one does not stop the others. */

import type { Command } from "commander";
import { OrbweaverError } from "../../../domain/values/failure.ts";
import {
  addServiceOptions,
  type ConnectionOptionValues,
} from "../../command/connection-options.ts";
import { addChosenJobsOptions, type ChosenJobsValues } from "../../command/chosen-jobs.ts";
import { forEachJob } from "../../command/each-job.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import { taskAnswer } from "../../command/task-table.ts";

export function cancelVerb(context: CommandContext): Command {
  const verb = addChosenJobsOptions(
    context
      .verb("cancel")
      .summary("cancel jobs")
      .description(
        "Requests the cancellation of jobs: those named, or all that fit the flags, which choose among waiting and running jobs as in `orbweaver list`. On a terminal it first says how many they are, and asks. A waiting job leaves the queue; a running job writes a checkpoint first if it can, and --force kills it at once, also when it is being stopped already. Returns when the request is recorded; `orbweaver status` shows when the job has ended.",
      )
      .argument("[job...]", "job ids"),
  )
    .option("-f, --force", "no checkpoint and no grace: KILL at once")
    .option("-t, --task <tasks>", "cancel only these tasks of a job array, e.g. 3,7-9")
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver cancel train-7", "cancel one job"],
        ["orbweaver cancel train-7 train-8", "cancel two jobs"],
        ["orbweaver cancel sweep-3 --task 3,7-9", "cancel four tasks of an array"],
        ["orbweaver cancel --me --label sweep=lr-7 --state pending", "what waits of a sweep"],
        ["orbweaver cancel --group nightly-12", "a group as one"],
        ["orbweaver cancel --user ada --yes", "everything of a user, without a question"],
        ["orbweaver cancel train-7 --force", "kill a job at once, as `orbweaver kill` does"],
      ]),
    )
    .action(async (jobIds: readonly string[], values: CancelValues) => {
      const { task, force } = values;
      if (task !== undefined && force === true)
        throw new OrbweaverError("BAD_INPUT", "--force kills whole jobs. Leave --task or it out.");
      const choice = { jobIds, values, verb: "cancel", states: OPEN_STATES };
      await forEachJob(context, { jobIds, values, choice }, async (job) => {
        if (task !== undefined) {
          const done = { jobId: job.jobId, answer: await job.cancelTasks(task) };
          return taskAnswer(context, done, CANCELLED);
        }
        await job.cancel({ isForced: force === true });
        return force === true ? "killing" : "cancelling";
      });
    });
  return addServiceOptions(verb);
}

const CANCELLED = { done: "cancelled", left: "had ended" } as const;
export const OPEN_STATES = ["pending", "held", "running"] as const;

interface CancelValues extends ConnectionOptionValues, ChosenJobsValues {
  readonly task?: string;
  readonly force?: boolean;
  readonly json?: boolean;
}
