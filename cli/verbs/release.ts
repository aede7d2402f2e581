/** @file `orbweaver release JOB…`: lets held jobs back into the queue; they keep the seniority of their submission. */

import type { Command } from "commander";
import { addConnectionOptions, type ConnectionOptionValues } from "../connection-options.ts";
import { forEachJob } from "../each-job.ts";
import { helpEnd, type Kit } from "../kit.ts";

export function releaseVerb(kit: Kit): Command {
  const verb = kit
    .verb("release")
    .summary("let held jobs into the queue")
    .description("Ends a hold: the jobs wait again, with the seniority of their submission.")
    .argument("<job...>", "job ids")
    .option("--json", "answer with one JSON document")
    .addHelpText("after", helpEnd([["orbweaver release train-7", "end its hold"]]))
    .action(
      async (
        jobIds: readonly string[],
        values: ConnectionOptionValues & { readonly json?: boolean },
      ) => {
        await forEachJob(kit, jobIds, values, (job) => job.release());
      },
    );
  return addConnectionOptions(verb);
}
