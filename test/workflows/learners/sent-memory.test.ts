/** @file What a cluster remembers of the messages that jobs sent: one record a job, bounded, and no junk. */

import { describe, expect, test } from "vitest";
import { jobId } from "../../../domain/values/ids.ts";
import type { SentNote } from "../../../protocol/model-messages.ts";
import { NO_MEMORY, takeIn } from "../../../workflows/learners/model-memory.ts";
import { MAX_PER_NAME, MAX_SENDERS } from "../../../workflows/learners/sent-memory.ts";

const note = (job: string, more: Partial<SentNote> = {}): SentNote => ({
  ...{ jobId: jobId(job), tenant: "team-a", class: "training", name: "llama", gpus: 16 },
  ...{ sent: [{ collective: "all_gather", bytes: 2 ** 28, share: 1 }], atMs: 1 },
  ...more,
});
const taken = (...words: readonly unknown[]) => takeIn(NO_MEMORY, words, "eu");

test("a job has one record: its latest word, of whatever run", () => {
  const sent = [{ collective: "all_reduce" as const, bytes: 2 ** 24, share: 1 }];
  const memory = taken(note("a"), note("a", { sent, atMs: 5 }), note("a", { atMs: 3 }), note("b"));
  expect(memory.sent).toEqual([
    { ...memory.sent?.[0], run: "a", sent, atMs: 5, name: "llama", tenant: "team-a" },
    { ...memory.sent?.[1], run: "b", atMs: 1 },
  ]);
  expect(memory).toMatchObject({ unfit: 0, samples: [], fresh: 0 });
});

describe("counted and left out", () => {
  test.each([
    ["a class that is none", { class: "hobby" as SentNote["class"] }],
    ["nobody's", { tenant: "" }],
    ["a job without a name", { name: "" }],
    ["a long name", { name: "n".repeat(301) }],
    ["one GPU, which sends nothing", { gpus: 1 }],
    ["no time", { atMs: NaN }],
    ["nothing sent", { sent: [] }],
    ["a model that is no text", { model: 7 as unknown as string }],
  ])("%s", (_name, more) => {
    const memory = taken(note("a", more));
    expect([memory.sent, memory.unfit]).toEqual([undefined, 1]);
  });
});

test("a name gives up its oldest job, and no tenant pushes out what another's jobs sent", () => {
  const one = taken(...Array.from({ length: 20 }, (_, at) => note(`j${String(at)}`)));
  expect(one.sent?.map(({ run }) => run)).toEqual(
    Array.from({ length: MAX_PER_NAME }, (_, at) => `j${String(20 - MAX_PER_NAME + at)}`),
  );
  const flood = Array.from({ length: 2 * MAX_SENDERS }, (_, at) =>
    note(`f${String(at)}`, { tenant: "team-b", name: `n${String(at)}` }),
  );
  const { sent = [] } = takeIn(one, flood, "eu");
  expect(sent).toHaveLength(MAX_SENDERS);
  expect(sent.filter(({ tenant }) => tenant === "team-a")).toHaveLength(MAX_PER_NAME);
});
