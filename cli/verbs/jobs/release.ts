/** @file `orbweaver release JOB…`: returns held jobs to the queue with the seniority of their submission. */

import type { Command } from "commander";
import {
  addConnectionOptions,
  type ConnectionOptionValues,
} from "../../command/connection-options.ts";
import { forEachJob } from "../../command/each-job.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";

export function releaseVerb(context: CommandContext): Command {
  const verb = context
    .verb("release")
    .summary("release held jobs into the queue")
    .description("Ends a hold. The jobs wait again, with the seniority of their submission.")
    .argument("<job...>", "job ids")
    .option("--json", "answer with one JSON document")
    .addHelpText("after", helpEnd([["orbweaver release train-7", "release one job"]]))
    .action(
      async (
        jobIds: readonly string[],
        values: ConnectionOptionValues & { readonly json?: boolean },
      ) => {
        await forEachJob(context, { jobIds, values }, (job) => job.release());
      },
    );
  return addConnectionOptions(verb);
}
