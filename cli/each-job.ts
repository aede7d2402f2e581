/** @file Does one thing to several jobs, tells what came of each, and fails if one of them failed. */

import type { JobHandle } from "../client/index.ts";
import type { ConnectionOptionValues } from "./connection-options.ts";
import { accountOf, errorLine } from "./error-line.ts";
import { EXIT } from "./exit-code.ts";
import type { Kit } from "./kit.ts";

/** `act` returns the state that the job has now; the exit status is that of the last job that failed. */
export async function forEachJob(
  kit: Kit,
  jobIds: readonly string[],
  values: ConnectionOptionValues & { readonly json?: boolean },
  act: (job: JobHandle) => Promise<string>,
): Promise<void> {
  const answers: object[] = [];
  await kit.withSession(values, async ({ client }) => {
    let exitCode: number = EXIT.ok;
    for (const jobId of jobIds) {
      try {
        const state = await act(client.job(jobId));
        answers.push({ jobId, state });
        if (values.json !== true) kit.print(`${jobId}  ${state}`);
      } catch (error) {
        const account = accountOf(error);
        // Without a connection the other jobs would fail the same way, each after its own timeout.
        if (account.exitCode === EXIT.noConnection) throw error;
        answers.push({ jobId, error: { code: account.code, message: account.message } });
        kit.io.stderr.write(errorLine(account));
        exitCode = account.exitCode;
      }
    }
    kit.exitWith(exitCode);
  });
  if (values.json === true) kit.printJson({ jobs: answers });
}
