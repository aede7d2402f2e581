/** @file `orbweaver hold JOB…`: takes waiting jobs out of the queue until they are released. */

import type { Command } from "commander";
import {
  addConnectionOptions,
  type ConnectionOptionValues,
} from "../../command/connection-options.ts";
import { forEachJob } from "../../command/each-job.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";

export function holdVerb(context: CommandContext): Command {
  const verb = context
    .verb("hold")
    .summary("hold waiting jobs")
    .description(
      "Takes waiting jobs out of the queue until `orbweaver release`. A running job cannot be held.",
    )
    .argument("<job...>", "job ids")
    .option("--json", "answer with one JSON document")
    .addHelpText("after", helpEnd([["orbweaver hold train-7", "hold one job"]]))
    .action(
      async (
        jobIds: readonly string[],
        values: ConnectionOptionValues & { readonly json?: boolean },
      ) => {
        await forEachJob(context, { jobIds, values }, (job) => job.hold());
      },
    );
  return addConnectionOptions(verb);
}
