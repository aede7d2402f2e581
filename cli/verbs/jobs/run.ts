/** @file `orbweaver run -- command`: a job at this terminal, with its output, signals and exit status. */

import type { Command } from "commander";
import { OrbweaverError } from "../../../domain/values/failure.ts";
import {
  addServiceOptions,
  type ConnectionOptionValues,
} from "../../command/connection-options.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import type { JobFlags } from "../../command/job-flags.ts";
import { addJobOptions } from "../../command/job-options.ts";
import { submitJob } from "../../command/submit-job.ts";
import { typedJob } from "../../command/typed-job.ts";
import { attendJob } from "../../sessions/attended-job.ts";

interface RunValues extends ConnectionOptionValues, JobFlags {
  readonly key?: string;
}

export function runVerb(context: CommandContext): Command {
  const verb = addJobOptions(context.verb("run"))
    .summary("run a command as a job, attached to this terminal")
    .description(
      "Submits a job of class interactive, says why it waits, shows the output of all ranks as it comes, and ends with the job's exit status. Ctrl-C cancels a job that waits; of one that runs, a second Ctrl-C within two seconds does, and TERM does at once. Without this command (HUP, KILL, a lost connection) the job goes on.",
    )
    .usage("[options] -- command...")
    .option("-k, --key <key>", "id of the job; running the same key twice starts only one job")
    .addHelpText(
      "after",
      helpEnd(
        [
          ["orbweaver run --gpus 1 -- python train.py --epochs 1", "one GPU, now"],
          ["orbweaver run --gpus 8 --same-host -- nvidia-smi -L", "one process for each GPU"],
          ["orbweaver run --gpus 4 --launch per-host -- torchrun train.py", "one for each host"],
          ["orbweaver run --class training --time-limit 2h -- ./train.sh", "as a training job"],
        ],
        "Exit status: the job's own: the status of its process, 128+n for signal n,\n127 command not found, 124 time limit or deadline, 130 cancelled. Of Orbweaver\nitself: 1 failed, 2 wrong usage or input, 3 not found, 4 no connection.",
      ),
    )
    .action(async ({ key, ...values }: RunValues) => {
      const job = await typedJob(
        context,
        { class: "interactive", ...values },
        commandOf(context, values),
      );
      await context.withFleet(values, async ({ client }) => {
        const { jobId } = await submitJob(context, client, { job, key });
        context.say(jobId);
        await attendJob(context, client.job(jobId));
      });
    });
  return addServiceOptions(verb);
}

/** Throws BAD_INPUT. */
function commandOf({ commandLine = [] }: CommandContext, values: JobFlags): readonly string[] {
  if (commandLine.length === 0)
    throw new OrbweaverError(
      "BAD_INPUT",
      "a command is missing. Write it after --, as in `orbweaver run --gpus 1 -- python train.py`.",
    );
  if (values.array !== undefined || values.hold === true)
    throw new OrbweaverError(
      "BAD_INPUT",
      "a job at a terminal is neither an array nor held. Use `orbweaver submit`.",
    );
  return commandLine;
}
