/**
 * @file `orbweaver attach JOB`: a job that was submitted before, at this terminal, as `run` has one.
 *
 * It may be another user's, so on a terminal control characters in its output are shown, not obeyed, as those of `logs`.
 */

import type { Command } from "commander";
import {
  addServiceOptions,
  type ConnectionOptionValues,
} from "../../command/connection-options.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import { attendJob } from "../../sessions/attended-job.ts";
import { JOB_EXIT_CODE_HELP } from "../../terminal/exit-code.ts";

interface AttachValues extends ConnectionOptionValues {
  readonly raw?: boolean;
}

export function attachVerb(context: CommandContext): Command {
  const verb = context
    .verb("attach")
    .summary("follow a job at this terminal, as `run` does")
    .description(
      "Shows the output of all ranks of a job from its last run on, says why it waits, and ends with the job's exit status. On a terminal control characters in the output are shown, not obeyed; a pipe or file gets the bytes. Signals are those of `run`: Ctrl-C cancels a job that waits; of one that runs, a second Ctrl-C within two seconds does, and TERM does at once. HUP leaves it alone. For input, `orbweaver exec --pty JOB -- bash` opens a shell beside it.",
    )
    .argument("<job>", "job id")
    .option("--raw", "pass control characters on to a terminal, colours among them")
    .addHelpText(
      "after",
      helpEnd(
        [
          ["orbweaver attach train-7", "its output from now on, and its end"],
          ["orbweaver attach --raw train-7", "with the colours of a job that you trust"],
          ["orbweaver logs --follow train-7", "the same output; Ctrl-C leaves the job alone"],
        ],
        JOB_EXIT_CODE_HELP,
      ),
    )
    .action(async (jobId: string, values: AttachValues) => {
      await context.withFleet(values, async ({ client }) => {
        const job = client.job(jobId);
        // One that does not exist is said at once, not waited for.
        await job.view();
        await attendJob(context, job, { isRaw: values.raw === true });
      });
    });
  return addServiceOptions(verb);
}
