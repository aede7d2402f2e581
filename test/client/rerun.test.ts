/** @file Which tasks of an ended array run again. */

import { expect, test } from "vitest";
import { goingOn, unfinishedTasks, type EndedJob } from "../../client/rerun.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import type { JobFile } from "../../domain/job/job-file.ts";
import { jobId, parseHostId } from "../../domain/values/ids.ts";
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

const SIGNAL = { signal: "USR1" };
const fileWith = (run: object, more: object = {}) =>
  ({ run: { command: "true", ...run }, ...more }) as JobFile;
const attempt = (hosts: readonly string[], checkpoint?: string) => ({
  gpus: hosts.map((host) => ({ host: parseHostId(host), mask: 1, orderQueue: "q", ranks: [] })),
  ...(checkpoint !== undefined && { checkpoint }),
});
const TWO = [attempt(["eu/a", "eu/b"], "/s/7/x"), attempt(["eu/c"])];

test.each([
  ["makes none", fileWith({}), TWO, /makes no checkpoints/],
  ["has written none", fileWith({ checkpoint: SIGNAL }), [attempt(["eu/a"])], /has written no/],
  [
    "is an array with them on its hosts",
    fileWith({ checkpoint: SIGNAL }, { array: { count: 2 } }),
    TWO,
    /is an array.*run\.checkpoint\.dir/,
  ],
  [
    "runs in an image with them on its hosts",
    fileWith({ checkpoint: SIGNAL, container: { image: "a/b:1" } }),
    TWO,
    /in an image/,
  ],
])("--from-checkpoint of a job that %s is refused, with the reason", (_what, file, runs, why) => {
  const asked = (): unknown => goingOn(jobId("a"), file, runs);
  expect(asked).toThrow(expect.objectContaining({ code: "NOT_ALLOWED" }));
  expect(asked).toThrow(why);
});

test("--from-checkpoint of a job with a folder of its own is the same file", () => {
  const file = fileWith({ checkpoint: { ...SIGNAL, dir: "/shared" } });
  expect(goingOn(jobId("a"), file, [])).toBe(file);
});

test("--from-checkpoint asks for the hosts of the last run that left one, within those that the file names", () => {
  const file = fileWith({ checkpoint: SIGNAL }, { constraints: { gpuTypes: ["H100"] } });
  expect(goingOn(jobId("a"), file, TWO)).toMatchObject({
    run: { checkpoint: { signal: "USR1", from: "a" } },
    constraints: { gpuTypes: ["H100"], hosts: ["eu/a", "eu/b"] },
  });
  const named = fileWith({ checkpoint: SIGNAL }, { constraints: { hosts: ["eu/b", "eu/d"] } });
  expect(goingOn(jobId("a"), named, TWO).constraints?.hosts).toEqual(["eu/b"]);
});

test("--from-checkpoint of a job that went on from another and wrote none itself goes on from that again", () => {
  const file = fileWith(
    { checkpoint: { ...SIGNAL, from: "a" } },
    { constraints: { hosts: ["eu/a"] } },
  );
  expect(goingOn(jobId("a-r1"), file, [attempt(["eu/a"])])).toBe(file);
  expect(goingOn(jobId("a-r1"), file, [attempt(["eu/a"], "/s/9/y")])).toMatchObject({
    run: { checkpoint: { from: "a-r1" } },
  });
});
