/**
 * @file Which dead letters a ledger keeps, from `BOUNDED_RULES` on: at most 50, so that a flood of one kind does not push out the others.
 *
 * Letters of one code, sender and message are one, with their number, as the newest of them. When there are too many, the code with
 * the most of them gives up its oldest one, whose number goes to the letter of that code for "others". So the last letters of a rare
 * code stay, and nothing that was counted is lost. Newest last. Cost: O(50) a letter.
 * Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import type { DeadLetter } from "../ledger.ts";

export const MAX_DEAD_LETTERS = 50;
export const DEAD_LETTER_CHARACTERS = 500;

/** The sender of letters that stand for those of many. */
const OTHERS = "others";

/** The letters with one more, and without what it replaces. */
export function withLetter(
  letters: readonly DeadLetter[],
  letter: DeadLetter,
): readonly DeadLetter[] {
  const former = letters.find((other) => isOfOneKind(other, letter));
  const kept = letters.filter((other) => other !== former);
  kept.push(former === undefined ? letter : counted(letter, timesOf(former)));
  if (kept.length > MAX_DEAD_LETTERS) giveUpOldest(kept, mostFrequentCode(kept));
  return kept;
}

/** A sender's words differ from entry to entry; without one the message tells what it is about. */
const isOfOneKind = (a: DeadLetter, b: DeadLetter): boolean =>
  a.code === b.code && a.sender === b.sender && (a.sender !== undefined || a.message === b.message);

const timesOf = ({ times = 1 }: DeadLetter): number => times;

const counted = (letter: DeadLetter, more: number): DeadLetter => ({
  ...letter,
  times: timesOf(letter) + more,
});

/** The oldest one joins those of others; where there are none yet, it and the next one become them. */
function giveUpOldest(letters: DeadLetter[], code: DeadLetter["code"] | undefined): void {
  const ofCode = letters.filter((letter) => letter.code === code);
  const [oldest, second] = ofCode.filter(({ sender }) => sender !== OTHERS);
  const kept = ofCode.find(({ sender }) => sender === OTHERS) ?? second;
  if (oldest === undefined || kept === undefined) return;
  letters[letters.indexOf(kept)] = { ...counted(kept, timesOf(oldest)), sender: OTHERS };
  letters.splice(letters.indexOf(oldest), 1);
}

/** Of codes with equally many letters the one whose letter comes first. */
function mostFrequentCode(letters: readonly DeadLetter[]): DeadLetter["code"] | undefined {
  const counts = new Map<DeadLetter["code"], number>();
  for (const { code } of letters) counts.set(code, (counts.get(code) ?? 0) + 1);
  let most: DeadLetter["code"] | undefined;
  for (const [code, count] of counts) {
    if (most === undefined || count > (counts.get(most) ?? 0)) most = code;
  }
  return most;
}
