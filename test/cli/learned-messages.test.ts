/** @file What a job is taken to send, for people and scripts: as it says, as was learned, or nothing. */

import { expect, test } from "vitest";
import { takenMessages, takenText } from "../../cli/planning/learned-messages.ts";
import { readJob } from "../../client/index.ts";
import type { AttemptView, JobView } from "../../protocol/job.ts";

const viewOf = (file: object, model?: string): Pick<JobView, "spec" | "attempts"> => {
  const { spec } = readJob({
    ...{ name: "llama", gang: { gpus: 8 }, run: { command: ["true"] } },
    ...file,
  });
  const note = { bandwidth: { method: "searched", ...(model !== undefined && { model }) } };
  return { spec, attempts: [note as AttemptView] };
};
const learned = { collective: "all_gather", bytes: 2 ** 28, jobs: 5, share: 0.92 } as const;
const NOTED = "v7 at 256 MiB all_gather, learned from 5 jobs (92 %)";

test("a run's note says for what its GPUs were chosen", () => {
  const taken = takenMessages(viewOf({}, NOTED));
  expect(taken).toEqual({ from: "learned", ...learned });
  expect(takenText(taken)).toBe(
    "profile learned from 5 jobs: all_gather 256 MiB (92 % of what they sent)",
  );
});

test("of a job that waits, what was learned of jobs like it", () => {
  const taken = takenMessages(viewOf({}), ({ name, gpus }) =>
    name === "llama" && gpus === 8 ? { ...learned, jobs: 1 } : undefined,
  );
  expect(takenText(taken)).toMatch(/^profile learned from 1 job: /);
});

test("what a job says itself stands, and needs no words", () => {
  const taken = takenMessages(viewOf({ communication: { size: "2GiB" } }, NOTED), () => learned);
  expect(taken).toEqual({ from: "stated", collective: "all_reduce", bytes: 2 ** 31 });
  expect(takenText(taken)).toBeUndefined();
});

test.each([
  ["one GPU", viewOf({ gang: { gpus: 1 } }, NOTED)],
  ["a note that learned nothing", viewOf({}, "v7")],
  ["no note", viewOf({})],
])("nothing is said of %s", (_name, view) => {
  expect(takenMessages(view)).toBeUndefined();
});
