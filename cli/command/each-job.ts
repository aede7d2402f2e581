/** @file Applies one action to several jobs, reports the result of each, and fails if one of them failed. */

import type { JobHandle } from "../../client/index.ts";
import type { ConnectionOptionValues } from "./connection-options.ts";
import { accountOf, errorLine } from "../terminal/error-line.ts";
import { EXIT } from "../terminal/exit-code.ts";
import type { CommandContext } from "./command-context.ts";

export interface JobsToChange {
  readonly jobIds: readonly string[];
  readonly values: ConnectionOptionValues & { readonly json?: boolean };
}

/** `act` returns the state that the job has now; the exit status is that of the last job that failed. */
export async function forEachJob(
  context: CommandContext,
  { jobIds, values }: JobsToChange,
  act: (job: JobHandle) => Promise<string>,
): Promise<void> {
  const answers: object[] = [];
  await context.withSession(values, async ({ client }) => {
    let exitCode: number = EXIT.ok;
    for (const jobId of jobIds) {
      try {
        const state = await act(client.job(jobId));
        answers.push({ jobId, state });
        if (values.json !== true) context.print(`${jobId}  ${state}`);
      } catch (error) {
        const account = accountOf(error);
        // Without a connection the other jobs would fail the same way, each after its own timeout.
        if (account.exitCode === EXIT.noConnection) throw error;
        answers.push({ jobId, error: { code: account.code, message: account.message } });
        context.io.stderr.write(errorLine(account));
        exitCode = account.exitCode;
      }
    }
    context.exitWith(exitCode);
  });
  if (values.json === true) context.printJson({ jobs: answers });
}
