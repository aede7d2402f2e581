/** @file `orbweaver hold JOB…`: takes waiting jobs out of the queue until they are released. */

import type { Command } from "commander";
import { addConnectionOptions, type ConnectionOptionValues } from "../connection-options.ts";
import { forEachJob } from "../each-job.ts";
import { helpEnd, type Kit } from "../kit.ts";

export function holdVerb(kit: Kit): Command {
  const verb = kit
    .verb("hold")
    .summary("keep waiting jobs from starting")
    .description(
      "Takes waiting jobs out of the queue until `orbweaver release`. A running job cannot be held.",
    )
    .argument("<job...>", "job ids")
    .option("--json", "answer with one JSON document")
    .addHelpText("after", helpEnd([["orbweaver hold train-7", "keep it from starting"]]))
    .action(
      async (
        jobIds: readonly string[],
        values: ConnectionOptionValues & { readonly json?: boolean },
      ) => {
        await forEachJob(kit, jobIds, values, (job) => job.hold());
      },
    );
  return addConnectionOptions(verb);
}
