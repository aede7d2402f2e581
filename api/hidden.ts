/** @file What a viewer does not see of a job: the values of its environment, and what its processes have written. */

import type { JobEnding, JobView } from "../client/index.ts";
import type { JobSpec } from "../domain/job/job.ts";
import type { JobFailureDetails } from "../protocol/messages.ts";

const HIDDEN = "(hidden)";

export function viewWithout(view: JobView): JobView {
  const { spec, attempts, array } = view;
  return {
    ...view,
    ...(spec !== undefined && {
      spec: { ...spec, run: runWithout(spec.run) },
    }),
    attempts: attempts.map((attempt) => {
      if (attempt.cause === undefined) return attempt;
      const { lastLines: _lines, ...cause } = attempt.cause;
      return { ...attempt, cause };
    }),
    ...(array !== undefined && {
      array: {
        ...array,
        firstFailed: array.firstFailed.map(({ message: _message, ...task }) => task),
      },
    }),
  };
}

export function endingWithout(ending: JobEnding): JobEnding {
  const { outcome } = ending;
  if (outcome?.kind !== "failed") return ending;
  return { ...ending, outcome: { ...outcome, failure: failureWithout(outcome.failure) } };
}

function failureWithout({
  lastLines: _lines,
  failedTasks,
  ...failure
}: JobFailureDetails): JobFailureDetails {
  return {
    ...failure,
    ...(failedTasks !== undefined && {
      failedTasks: failedTasks.map(({ message: _message, ...task }) => task),
    }),
  };
}

const runWithout = (run: JobSpec["run"]): JobSpec["run"] => ({
  ...run,
  env: namesOnly(run.env),
  // Its name is the right to read it.
  ...(run.folder !== undefined && { folder: { hash: HIDDEN, from: [] } }),
  ...(run.secrets !== undefined && { secrets: namesOnly(run.secrets) }),
});

const namesOnly = (env: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(Object.keys(env).map((name) => [name, HIDDEN]));
