/** @file `orbweaver update JOB…`: changes settings of jobs that wait or run, without submitting them again. */

import type { Command } from "commander";
import { amendOne } from "../../command/amend-job.ts";
import {
  addServiceOptions,
  type ConnectionOptionValues,
} from "../../command/connection-options.ts";
import { EXIT_CODE_HELP, NEVER_EXIT_CODE_HELP } from "../../terminal/exit-code.ts";
import { forEachJob } from "../../command/each-job.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import { readPriority } from "../../command/job-options.ts";
import { wholeNumber } from "../../command/option-values.ts";

interface UpdateValues extends ConnectionOptionValues {
  readonly priority?: number;
  readonly tenant?: string;
  readonly timeLimit?: string;
  readonly deadline?: string;
  readonly min?: number;
  readonly max?: number;
  readonly queueAnyway?: boolean;
  readonly json?: boolean;
}

export function updateVerb(context: CommandContext): Command {
  const verb = context
    .verb("update")
    .summary("change jobs without submitting them again")
    .description(
      "Changes settings of jobs that wait or run, job arrays included. The same checks as at a submission come first, and what would never start is refused, as `submit` refuses it. A waiting job keeps its age and its place inside the fleet. A running job goes on as it was started: its deadline counts at once, everything else from its next run on (`orbweaver requeue` starts that), and its tenant cannot change while it runs. Who has changed what is shown by `status` and `explain`.",
    )
    .argument("<job...>", "job ids")
    .option(
      "--priority <number>",
      "higher goes first inside its tenant, -1000 to 1000",
      readPriority,
    )
    .option("--tenant <tenant>", "tenant whose quota the job uses")
    .option("--time-limit <duration>", "longest time of a run, e.g. 2h")
    .option("--deadline <duration>", "time after its submission by which the job must have ended")
    .option("--min <count>", "smallest gang that is accepted", wholeNumber("--min", 1))
    .option("--max <count>", "GPUs of the full gang", wholeNumber("--max", 1))
    .option("--queue-anyway", "also where the fleet would never start the job so")
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd(
        [
          ["orbweaver update train-7 --priority 10", "before the tenant's other jobs"],
          ["orbweaver update train-7 train-8 --tenant vision", "at the cost of another tenant"],
          ["orbweaver update train-7 --min 4 --max 16", "another size, if it has not started"],
          ["orbweaver update train-7 --time-limit 12h", "longer runs"],
        ],
        `${EXIT_CODE_HELP}\n${NEVER_EXIT_CODE_HELP}`,
      ),
    )
    .action(async (jobIds: readonly string[], { json, ...values }: UpdateValues) => {
      const { priority, tenant, timeLimit, deadline, min, max, queueAnyway, ...flags } = values;
      const settings = {
        ...(priority !== undefined && { priority }),
        ...(tenant !== undefined && { tenant }),
        ...(timeLimit !== undefined && { timeLimit }),
        ...(deadline !== undefined && { deadline }),
        ...(min !== undefined && { min }),
        ...(max !== undefined && { max }),
      };
      const asked = { jobIds, values: { ...flags, ...(json !== undefined && { json }) } };
      await forEachJob(context, asked, (job) =>
        amendOne(context, { job, ...(queueAnyway !== undefined && { queueAnyway }) }, settings),
      );
    });
  return addServiceOptions(verb);
}
