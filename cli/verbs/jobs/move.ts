/** @file `orbweaver move JOB…`: has another fleet run jobs that wait or run, without submitting them again. */

import type { Command } from "commander";
import type { JobHandle } from "../../../client/index.ts";
import { OrbweaverError } from "../../../domain/values/failure.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import {
  addServiceOptions,
  type ConnectionOptionValues,
} from "../../command/connection-options.ts";
import { EXIT_CODE_HELP, NEVER_EXIT_CODE_HELP } from "../../terminal/exit-code.ts";
import { forEachJob, type JobChange } from "../../command/each-job.ts";

interface MoveValues extends ConnectionOptionValues {
  readonly json?: boolean;
  readonly queueAnyway?: boolean;
}

export function moveVerb(context: CommandContext): Command {
  const verb = context
    .verb("move")
    .summary("have another fleet run jobs")
    .description(
      "Has another fleet of the same namespace run jobs that wait or run. A running job writes a checkpoint if it can and gives its GPUs back. Once its fleet holds nothing of it any more it asks the other one, with its age and the rest of its time limit, and stays there. What would never start there is refused, as `submit` refuses it, and so are job arrays, replicas of services, and jobs whose checkpoints lie in folders of their hosts. Who has moved it is shown by `status` and `explain`.",
    )
    .usage("[options] --fleet <name> <job...>")
    .argument("<job...>", "job ids")
    .option("--queue-anyway", "also where that fleet does not answer, or would never start the job")
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd(
        [
          ["orbweaver move train-7 --fleet us", "go on at another site"],
          ["orbweaver status train-7", "where it is, and who has moved it"],
        ],
        `${EXIT_CODE_HELP}\n${NEVER_EXIT_CODE_HELP}`,
      ),
    )
    // The fleet is where the jobs go, so the server is that of the user's own fleet.
    .action(async (jobIds: readonly string[], { queueAnyway, fleet, ...values }: MoveValues) => {
      if (fleet === undefined || fleet === "")
        throw new OrbweaverError("BAD_INPUT", "no fleet is named. Write --fleet NAME.");
      await forEachJob(context, { jobIds, values }, (job) =>
        moveOne(job, fleet, queueAnyway === true),
      );
    });
  return addServiceOptions(verb);
}

async function moveOne(job: JobHandle, fleet: string, isQueuedAnyway: boolean): Promise<JobChange> {
  const answer = await job.move(fleet, { isQueuedAnyway });
  return { state: `${answer.from} → ${answer.to}`, more: { moved: answer } };
}
