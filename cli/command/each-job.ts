/** @file Applies one action to several jobs, reports the result of each, and fails if one of them failed. */

import type { JobHandle } from "../../client/index.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import type { ConnectionOptionValues } from "./connection-options.ts";
import { accountOf, errorLine } from "../terminal/error-line.ts";
import { EXIT } from "../terminal/exit-code.ts";
import { chosenJobs, type JobChoice } from "./chosen-jobs.ts";
import type { CommandContext } from "./command-context.ts";
import type { FleetSession } from "./service-session.ts";

export interface JobsToChange {
  readonly jobIds: readonly string[];
  readonly values: ConnectionOptionValues & { readonly json?: boolean };
  /** Of a verb that may also choose its jobs by flags. */
  readonly choice?: JobChoice;
}

/** What became of one job: a word for people, and further members of its answer. */
export interface JobChange {
  readonly state: string;
  readonly more?: object;
}

/**
 * `act` returns the state that the job has now; the exit status is that of the last job that failed. A job that flags chose and that
 * ended before its turn is no failure: there is nothing left to do.
 */
export async function forEachJob(
  context: CommandContext,
  { jobIds, values, choice }: JobsToChange,
  act: (job: JobHandle, session: FleetSession) => Promise<string | JobChange>,
): Promise<void> {
  const answers: object[] = [];
  await context.withFleet(values, async (session) => {
    const chosen = choice === undefined ? jobIds : await chosenJobs(context, session, choice);
    const isByFlags = chosen !== jobIds;
    let exitCode: number = EXIT.ok;
    for (const jobId of chosen) {
      try {
        const job = session.client.job(jobId);
        const changed = await act(job, session).catch(async (error: unknown) => {
          const end = isByFlags && isNotAllowed(error) ? (await job.ending()).outcome : undefined;
          if (end === undefined) throw error;
          return `${end.kind} before`;
        });
        const { state, more = {} } = typeof changed === "string" ? { state: changed } : changed;
        answers.push({ jobId, state, ...more });
        if (values.json !== true) context.print(`${jobId}  ${state}`);
      } catch (error) {
        const account = accountOf(error);
        // Without a connection the other jobs would fail the same way, each after its own timeout.
        if (account.exitCode === EXIT.noConnection) throw error;
        const { code, message, details } = account;
        answers.push({
          jobId,
          error: { code, message, ...(details !== undefined && { details }) },
        });
        context.io.stderr.write(errorLine(account));
        exitCode = account.exitCode;
      }
    }
    context.exitWith(exitCode);
  });
  if (values.json === true) context.printJson({ jobs: answers });
}

const isNotAllowed = (error: unknown): boolean =>
  error instanceof OrbweaverError && error.code === "NOT_ALLOWED";
