/** @file What a fleet asks about words that have come: a flood without proofs is asked about without being copied. */

import { expect, it } from "vitest";
import {
  asked,
  carriedWords,
  noWords,
  openWords,
  questionText,
  settled,
  withWord,
  type Word,
  type Words,
} from "../../../machines/fleet/words.ts";
import { formatProof, NO_PROOF, UNSIGNED } from "../../../protocol/word-proof.ts";
import { NEWEST_RULES } from "../../../scheduling/ledger/ledger.ts";
import {
  FLOODED_TURNS_RULES,
  SHORT_WORDS_RULES,
  SPACED_RUNS_RULES,
} from "../../../scheduling/ledger/upgrade.ts";

const NEWEST = { applyVersion: NEWEST_RULES };
const NOBODY = noWords("orbweaver-fleet-prod", 0);
const PROOF = formatProof({
  role: "jobs",
  key: `ed25519:${"k".repeat(43)}`,
  atMs: 1_000,
  nonce: "n".repeat(22),
  signature: "s".repeat(86),
});

const wordOf = (text: string, proof?: string): Word => {
  const value = new TextEncoder().encode(text);
  // As a fleet without keys hears everybody: nothing is encrypted.
  const word: Word = { batch: text, bytes: value.length, value, flaw: "open" };
  return { ...word, ...(proof !== undefined && { proof }) };
};

it("takes along the values of words with a proof, and of no other", () => {
  const all = [
    wordOf("junk"),
    wordOf("first", PROOF),
    wordOf("more junk", "no proof"),
    wordOf("second", PROOF),
  ];
  const words = asked(all.reduce(withWord, NOBODY), { id: 1, nowMs: 2_000 });
  const { list, values } = questionText(words, words.question?.words ?? []);
  expect(list.words.map(({ bytes }) => bytes)).toEqual([0, 5, 0, 6]);
  expect(list.words.map(({ proof }) => proof)).toEqual([undefined, PROOF, "no proof", PROOF]);
  expect(new TextDecoder().decode(values)).toBe("firstsecond");
});

it("of a run that ends are judged by the next one as of when they came, and twice by none", () => {
  const old = wordOf("old", PROOF);
  const hours = 3_600_000;
  const { words: carried } = carriedWords(withWord(NOBODY, old), NEWEST);
  const next = openWords({ ...NOBODY, startedAtMs: 5 * hours, ledger: NEWEST }, { words: carried });
  const refusals = (words: Words): readonly unknown[] => {
    const { question } = asked(words, { id: 1, nowMs: 5 * hours });
    if (question === undefined) throw new Error("nothing was asked");
    return settled(words, question, { refused: [] }).all.map(({ refusal }) => refusal);
  };
  expect(refusals(next)).toEqual([undefined]);
  // Said anew, so much later, it is refused.
  expect(refusals(withWord(noWords(NOBODY.workflowId, 5 * hours), old))).toEqual([
    expect.stringContaining("long before"),
  ]);
  const heard = { ...withWord(NOBODY, old), seen: new Set(["n".repeat(22)]) };
  expect(carriedWords(heard, NEWEST)).toEqual({ words: [], left: "nothing" });
});

it("by former rules are handed on as they came, so that a run that was recorded ends where it did", () => {
  const heard = { ...withWord(NOBODY, wordOf("old", PROOF)), seen: new Set(["n".repeat(22)]) };
  const { words } = carriedWords(heard, { applyVersion: SPACED_RUNS_RULES - 1 });
  expect(words).toHaveLength(1);
  expect(words[0]).not.toHaveProperty("sinceMs");
});

const LARGE = "x".repeat(100 * 1024);

it("of operators go along as far as there is room, the smallest first, whatever a stranger orders", () => {
  const order = (name: string, text: string): Word => ({
    ...wordOf(text),
    order: { name: "drain", id: name },
  });
  const orders = [order("junk", LARGE), order("drain", "h1"), order("more junk", LARGE)];
  const { words, left } = carriedWords(orders.reduce(withWord, NOBODY), NEWEST);
  expect(words.map((word) => word.order?.id)).toEqual(["drain"]);
  expect(left).toBe("more");
  const none = carriedWords(
    orders.slice(2).concat(order("huge", LARGE)).reduce(withWord, NOBODY),
    NEWEST,
  );
  expect(none.words).toEqual([]);
});
/** As the verdicts on words, one after the other, leave the run. */
const afterVerdicts = (verdicts: readonly (readonly [Word, string?])[]): Words =>
  verdicts.reduce((words, [word, reason]) => {
    const { question } = asked(withWord(words, word), { id: 1, nowMs: 2_000 });
    if (question === undefined) throw new Error("nothing was asked");
    const refused = reason === undefined ? [] : [{ reason, words: [0] }];
    return settled(words, question, { refused }).words;
  }, NOBODY);
const REFUSED: readonly [Word, string] = [wordOf("junk"), UNSIGNED];
const HEARD: readonly [Word] = [wordOf("true")];

it.each([
  { name: "of which one was refused", verdicts: [REFUSED], left: "nothing" },
  {
    name: "of which one was refused for a proof that is none",
    verdicts: [[wordOf("junk", "no proof"), NO_PROOF] as const],
    left: "nothing",
  },
  { name: "of which none was refused yet", verdicts: [], left: "large" },
  {
    name: "of which one was refused for how it was encrypted",
    verdicts: [[wordOf("junk"), "it is not encrypted"] as const],
    left: "large",
  },
  { name: "of which one was heard since", verdicts: [REFUSED, HEARD], left: "large" },
  { name: "of which one was refused again", verdicts: [HEARD, REFUSED], left: "nothing" },
  {
    name: "by former rules",
    verdicts: [REFUSED],
    rules: FLOODED_TURNS_RULES - 1,
    left: "more",
  },
  {
    name: "of which none was refused yet, by former rules",
    verdicts: [],
    rules: SHORT_WORDS_RULES - 1,
    left: "more",
  },
])(
  "that are large and without a proof, $name, leave $left behind",
  ({ verdicts, rules = NEWEST_RULES, left }) => {
    const order: Word = { ...wordOf("drain"), order: { name: "drain", id: "o1" } };
    const came = [wordOf(LARGE), order, wordOf("end", PROOF), wordOf(LARGE)];
    const carried = carriedWords(came.reduce(withWord, afterVerdicts(verdicts)), {
      applyVersion: rules,
    });
    expect(carried.left).toBe(left);
    const kept = left === "more" ? ["drain"] : ["drain", "end"];
    expect(carried.words.map(({ batch }) => batch)).toEqual(kept);
  },
);
