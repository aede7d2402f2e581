/** @file What jobs sent, and what is learned of it: the dominant messages of jobs alike, of few and of many, and nothing of junk. */

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Collective } from "../../../domain/bandwidth/message-profile.ts";
import {
  learnedIn,
  openMessages,
  readSentParts,
  versionFor,
  type KeptMessages,
  type Sender,
  type SentPart,
} from "../../../domain/bandwidth/sent-messages.ts";

const MiB = 2 ** 20;
const SENDER: Sender = { tenant: "a", class: "training", name: "llama", gpus: 16 };
const part = (bytes: number, share: number, collective: Collective = "all_reduce"): SentPart => ({
  collective,
  bytes,
  share,
});
let count = 0;
const job = (sent: readonly SentPart[], more: Partial<KeptMessages> = {}): KeptMessages => {
  count += 1;
  return { ...SENDER, run: `j${String(count)}`, sent, atMs: count, ...more };
};

test("one job of that name is enough, and its messages are rounded", () => {
  const learned = openMessages([job([part(240 * MiB, 0.8), part(MiB, 0.2)])])(SENDER);
  expect(learned).toEqual({ collective: "all_reduce", bytes: 256 * MiB, jobs: 1, share: 0.8 });
});

test("the collective with the largest share counts, not the largest message", () => {
  const sent = [
    part(64 * MiB, 0.35, "all_gather"),
    part(128 * MiB, 0.25, "all_gather"),
    part(1024 * MiB, 0.4),
  ];
  expect(openMessages([job(sent)])(SENDER)).toMatchObject({
    collective: "all_gather",
    bytes: 64 * MiB,
    share: 0.6,
  });
});

test("a job counts as one, whatever it sent, and an odd one moves nothing", () => {
  const usual = Array.from({ length: 4 }, () => job([part(256 * MiB, 1)]));
  const odd = job([part(2 ** 34, 1)]);
  expect(openMessages([...usual, odd])(SENDER)).toMatchObject({ bytes: 256 * MiB, jobs: 5 });
});

test("it follows jobs that change: the latest eight count", () => {
  const before = Array.from({ length: 20 }, () => job([part(16 * MiB, 1)]));
  const after = Array.from({ length: 8 }, () => job([part(512 * MiB, 1)]));
  expect(openMessages([...before, ...after])(SENDER)?.bytes).toBe(512 * MiB);
});

describe("which jobs are alike", () => {
  const own = job([part(256 * MiB, 1)]);
  test.each([
    ["of another tenant", { tenant: "b" }],
    ["of another class", { class: "inference" as const }],
    ["of another name, alone of its size", { name: "other" }],
  ])("none %s", (_name, more) => {
    expect(openMessages([own])({ ...SENDER, ...more })).toBeUndefined();
  });

  test("those that train its model, where none has its name", () => {
    const trained = job([part(64 * MiB, 1)], { name: "x", model: "gpt2-1.3b" });
    const messagesOf = openMessages([own, trained]);
    for (const model of ["gpt2-1.3b", "GPT2_1.3B"])
      expect(messagesOf({ ...SENDER, name: "y", model })?.bytes).toBe(64 * MiB);
    expect(messagesOf({ ...SENDER, model: "gpt2-1.3b" })?.bytes).toBe(256 * MiB);
  });

  test("three of its size, where neither is known", () => {
    const others = ["x", "y", "z"].map((name) => job([part(32 * MiB, 1)], { name, gpus: 20 }));
    const stranger = { ...SENDER, name: "new" };
    expect(openMessages(others.slice(1))(stranger)).toBeUndefined();
    expect(openMessages(others)(stranger)).toMatchObject({ bytes: 32 * MiB, jobs: 3 });
    expect(openMessages(others)({ ...stranger, gpus: 64 })).toBeUndefined();
  });
});

test("it converges to what dominates, however jobs scatter around it", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 20, max: 31 }),
      fc.array(fc.tuple(fc.double({ min: 0.8, max: 1.25, noNaN: true }), fc.nat(30)), {
        minLength: 8,
        maxLength: 40,
      }),
      (power, jobs) => {
        const sent = jobs.map(([factor, other]) =>
          job([part(2 ** power * factor, 0.7), part(2 ** other, 0.3, "all_gather")]),
        );
        const learned = openMessages(sent)(SENDER);
        expect(learned).toMatchObject({ collective: "all_reduce", bytes: 2 ** power, jobs: 8 });
        expect(learned?.share).toBeCloseTo(0.7, 6);
      },
    ),
  );
});

test("the version of a note says what was learned, and is read again", () => {
  const learned = { collective: "all_gather", bytes: 256 * MiB, jobs: 5, share: 0.92 } as const;
  const version = versionFor("v7 at 256 MiB all_gather", learned);
  expect(version).toBe("v7 at 256 MiB all_gather, learned from 5 jobs (92 %)");
  expect(learnedIn(version)).toEqual(learned);
  const usual = { ...learned, collective: "all_reduce", jobs: 1 } as const;
  expect(learnedIn(versionFor("v7", usual))).toEqual(usual);
  for (const other of [undefined, "table", "v7", "v7 at 2 GiB"])
    expect(learnedIn(other)).toBeUndefined();
});

test.each([
  ["nothing", []],
  ["no list", { collective: "all_reduce", bytes: 1, share: 1 }],
  ["another collective", [{ collective: "gossip", bytes: 1, share: 1 }]],
  ["no size", [{ collective: "all_reduce", bytes: NaN, share: 1 }]],
  ["more than a tebibyte", [{ collective: "all_reduce", bytes: 2 ** 41, share: 1 }]],
  ["more than all of it", [{ collective: "all_reduce", bytes: 1, share: 1.1 }]],
  ["no share of it", [{ collective: "all_reduce", bytes: 1, share: 0 }]],
  ["too many parts", Array.from({ length: 10 }, () => part(MiB, 0.1))],
])("no job can have sent %s", (_name, value) => {
  expect(readSentParts(value)).toBeUndefined();
});
