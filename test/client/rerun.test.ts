/** @file Which tasks of an ended array run again. */

import { expect, test } from "vitest";
import { checkHasCheckpoints, unfinishedTasks, type EndedJob } from "../../client/rerun.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { jobId } from "../../domain/values/ids.ts";
import type { JobView } from "../../client/index.ts";

const noTasks: EndedJob["tasksOf"] = () =>
  Promise.reject(new OrbweaverError("NOT_FOUND", "nobody answers the query"));

const endedBefore = (array: object): Pick<EndedJob, "jobId" | "view" | "tasksOf"> => ({
  jobId: jobId("sweep"),
  view: () => Promise.resolve({ spec: { array } } as unknown as JobView),
  tasksOf: noTasks,
});

test.each(["failed", "cancelled"])(
  "all selected tasks of an array that %s while it waited for other jobs",
  async (end) => {
    expect(await unfinishedTasks(endedBefore({ count: 5 }), end)).toBe("0-4");
    expect(await unfinishedTasks(endedBefore({ count: 9, tasks: "2,4-6" }), end)).toBe("2,4-6");
  },
);

test.each([
  ["makes none", {}, false],
  ["keeps them on its hosts", { checkpoint: { signal: "USR1" } }, false],
  ["keeps them where a new job looks", { checkpoint: { signal: "USR1", dir: "/shared" } }, true],
])("--from-checkpoint of a job that %s", (_what, run, wantRerun) => {
  const check = (): void => checkHasCheckpoints(jobId("a"), { run: { command: "true", ...run } });
  if (wantRerun) expect(check).not.toThrow();
  else expect(check).toThrow(expect.objectContaining({ code: "NOT_ALLOWED" }));
});
