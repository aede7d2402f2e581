/** @file What a fleet asks about words that have come: a flood without proofs is asked about without being copied. */

import { expect, it } from "vitest";
import {
  asked,
  noWords,
  questionText,
  withWord,
  type Word,
} from "../../../machines/fleet/words.ts";
import { formatProof } from "../../../protocol/word-proof.ts";

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
  return { batch: text, bytes: value.length, value, ...(proof !== undefined && { proof }) };
};

it("takes along the values of words with a proof, and of no other", () => {
  const all = [
    wordOf("junk"),
    wordOf("first", PROOF),
    wordOf("more junk", "no proof"),
    wordOf("second", PROOF),
  ];
  const words = asked(all.reduce(withWord, NOBODY), 1, 2_000);
  const { list, values } = questionText(words, words.question?.words ?? []);
  expect(list.words.map(({ bytes }) => bytes)).toEqual([0, 5, 0, 6]);
  expect(list.words.map(({ proof }) => proof)).toEqual([undefined, PROOF, "no proof", PROOF]);
  expect(new TextDecoder().decode(values)).toBe("firstsecond");
});
