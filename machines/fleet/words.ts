/**
 * @file Words to a fleet that asks for proof of who speaks: they wait here until a local activity has settled them.
 *
 * A turn begins with one question about all words that have come, up to a bound; nothing else happens until the verdicts are there, and the turn
 * goes on at the time at which it began. So it is all one whether other news come with the verdicts or after them (docs/decisions/0014). Words that
 * passed go to the inbox, the others to the dead letters. A number that was used in this run does not count again, and that of an order in no later one either.
 */

import { allWaiting, joined, NOTHING_WAITS, served, type FairQueue } from "../../lib/fair-queue.ts";
import { utf8Length } from "../../lib/utf8.ts";
import type { CarriedWord, FleetInput } from "../../protocol/fleet.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import {
  FLOODED_TURNS_RULES,
  SHORT_WORDS_RULES,
  SPACED_RUNS_RULES,
} from "../../scheduling/ledger/upgrade.ts";
import type { SealFlaw } from "../../protocol/seal.ts";
import {
  maySayEntry,
  NO_PROOF,
  parseProof,
  staleWord,
  UNSIGNED,
  type FleetOrderName,
  type WordsToCheck,
  type WordVerdicts,
} from "../../protocol/word-proof.ts";
import { costOf, laneOf, SLICE_BYTES, sliceOf, type Brought } from "./inbox.ts";

/** One signal or update, with what its proof covers. */
export interface Word extends Brought {
  readonly proof?: string;
  /** The bytes of its value as they came; absent where they are not checked. */
  readonly value?: Uint8Array;
  /** How it was not encrypted. */
  readonly flaw?: SealFlaw;
  /** When the run to which it came began, if that is a former one: during an outage it may have waited longer than a proof is good for. */
  readonly sinceMs?: number;
  /** Absent of a batch of entries. */
  readonly order?: { readonly name: FleetOrderName; readonly id: string };
}

export type OrderWord = Word & { readonly order: NonNullable<Word["order"]> };

export interface Words {
  /** The workflow that they are for. */
  readonly workflowId: string;
  /** When its run began. */
  readonly startedAtMs: number;
  readonly waiting: FairQueue<Word>;
  /** The numbers of this run's words, and those below. */
  readonly seen: ReadonlySet<string>;
  /** The numbers of the last proven orders, former runs' included, in their order. */
  readonly orderNumbers: readonly string[];
  /** The last word without a proof that this run asked about was refused for that: nobody is believed without one. */
  readonly isProofNeeded: boolean;
  readonly question: Question | undefined;
}

export interface Question {
  readonly id: number;
  /** The time of its turn. */
  readonly nowMs: number;
  readonly words: readonly Word[];
  /** More had come than one question asks. */
  readonly hasMore: boolean;
}

const NO_BYTES = new Uint8Array();
const QUICK_WORDS = 32;
const QUICK_BYTES = 32 * 1024;

/** A run ends soon after an order, so those of ten minutes, after which a proof is too old, may be of many runs. */
const MOST_ORDER_NUMBERS = 256;

export const noWords = (
  workflowId: string,
  startedAtMs: number,
  orderNumbers: readonly string[] = [],
): Words => ({
  workflowId,
  startedAtMs,
  waiting: NOTHING_WAITS,
  seen: new Set(orderNumbers),
  orderNumbers,
  isProofNeeded: false,
  question: undefined,
});

export const isAnyWaiting = (words: Words | undefined): boolean =>
  words !== undefined && words.waiting.size > 0;

export const withWord = (words: Words, word: Word): Words => ({
  ...words,
  waiting: joined(words.waiting, { key: word.lane ?? "", cost: costOf(word), value: word }),
});

/** Of JSON. Beside a full ledger the input of a run has 256 KiB. */
const MOST_CARRIED_BYTES = 128 * 1024;

type Rules = Pick<Ledger, "applyVersion">;

export interface CarriedOn {
  readonly words: readonly CarriedWord[];
  /** What stays behind and may be true: nothing, large words that are no orders, or more. */
  readonly left: "nothing" | "large" | "more";
}

/**
 * What waits, for the next run, in its order; where that is more than its input has room for, what has a proof, if the rest is not believed; or orders and all small words that may be true; or operators' orders alone,
 * which nobody gives again: of too many the smallest, so that large ones of a stranger keep nobody's drain from the next run. By former rules a run hands on all as it came, because its room decides when it ends. Cost: O(bytes).
 */
export function carriedWords(words: Words | undefined, { applyVersion }: Rules): CarriedOn {
  const waiting = words === undefined ? [] : waitingIn(words, applyVersion);
  const all = carriedOf(waiting);
  if (all !== undefined) return { words: all, left: "nothing" };
  // Words of 100 KB, one after the other, would keep a run from its end.
  const isJunkKnown = applyVersion >= FLOODED_TURNS_RULES && words?.isProofNeeded === true;
  const provable = isJunkKnown ? carriedOf(waiting.filter(mayBeBelieved)) : undefined;
  if (provable !== undefined) return { words: provable, left: "nothing" };
  const isKept = (word: Word): boolean =>
    word.order !== undefined ||
    (isSmall(word) && (mayBeBelieved(word) || words?.isProofNeeded === false));
  const small = applyVersion >= SHORT_WORDS_RULES ? carriedOf(waiting.filter(isKept)) : undefined;
  if (small !== undefined) return { words: small, left: "large" };
  return { words: smallestOrders(waiting), left: "more" };
}

/** In the order in which they came. */
function smallestOrders(waiting: readonly Word[]): readonly CarriedWord[] {
  const orders = waiting.filter(({ order }) => order !== undefined);
  const bySize = [...orders].sort((a, b) => (a.bytes ?? 0) - (b.bytes ?? 0));
  for (let count = bySize.length; count > 0; count -= Math.ceil(count / 8)) {
    const kept = new Set(bySize.slice(0, count));
    const carried = carriedOf(orders.filter((word) => kept.has(word)));
    if (carried !== undefined) return carried;
  }
  return [];
}

/** Most have a few KiB; the input of a run has room for eight of this size. */
const SMALL_WORD_BYTES = 16 * 1024;
const isSmall = ({ bytes = 0 }: Word): boolean => bytes <= SMALL_WORD_BYTES;

const mayBeBelieved = ({ proof, order }: Word): boolean =>
  order !== undefined || parseProof(proof) !== undefined;

const waitingIn = (words: Words, applyVersion: number): readonly Word[] =>
  applyVersion >= SPACED_RUNS_RULES ? unsaid(words) : allWaiting(words.waiting);

/** Without what was said before in this run: the next one could not tell. */
const unsaid = ({ waiting, seen, startedAtMs }: Words): readonly Word[] =>
  allWaiting(waiting)
    .filter(({ proof }) => !seen.has(parseProof(proof)?.nonce ?? ""))
    .map((word) => ({ sinceMs: startedAtMs, ...word }));

/** Undefined where the input of a run has no room for them. */
function carriedOf(waiting: readonly Word[]): readonly CarriedWord[] | undefined {
  if (waiting.reduce((sum, { bytes = 0 }) => sum + bytes, 0) > MOST_CARRIED_BYTES) return undefined;
  const carried = waiting.map(
    ({ batch, bytes, sender, proof, flaw, order, value, sinceMs }): CarriedWord => ({
      batch,
      ...(bytes !== undefined && { bytes }),
      ...(sender !== undefined && { sender }),
      ...(proof !== undefined && { proof }),
      ...(flaw !== undefined && { flaw }),
      ...(order !== undefined && { order }),
      ...(sinceMs !== undefined && { sinceMs }),
      ...(value !== undefined && { value: textOf(value) }),
    }),
  );
  return utf8Length(JSON.stringify(carried)) > MOST_CARRIED_BYTES ? undefined : carried;
}

/** Of a run that begins, with what the last one has handed on. */
export const openWords = (
  {
    workflowId,
    startedAtMs,
    ledger,
  }: Pick<Words, "workflowId" | "startedAtMs"> & { readonly ledger: Rules },
  { words: carried = [], orderNumbers = [] }: Pick<FleetInput, "words" | "orderNumbers">,
): Words =>
  carried.reduce(
    (words, word) => withWord(words, broughtOn(word, laneOf(ledger, word))),
    noWords(workflowId, startedAtMs, orderNumbers),
  );

const broughtOn = ({ value, ...word }: CarriedWord, lane: string | undefined): Word => ({
  ...(word as Omit<Word, "value">), // as it was written
  ...(value !== undefined && { value: bytesOf(value) }),
  ...(lane !== undefined && { lane }),
});

/** A character a byte. */
const textOf = (bytes: Uint8Array): string => {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return text;
};
const bytesOf = (text: string): Uint8Array =>
  Uint8Array.from(text, (character) => character.charCodeAt(0));

/** Of one question: a proof takes a millisecond of 256 KiB. */
const MOST_ASKED_BYTES = 4 * 1024 * 1024;

/** By former rules as many as are folded at once, so that two words of 512 KiB took a turn each. */
export const mostAskedBytes = ({ applyVersion }: Rules): number =>
  applyVersion >= SHORT_WORDS_RULES ? MOST_ASKED_BYTES : SLICE_BYTES;

/** The question about the words whose turn it is, up to `mostBytes` of them, or one. */
export function asked(
  words: Words,
  { id, nowMs, mostBytes }: Pick<Question, "id" | "nowMs"> & { readonly mostBytes?: number },
): Words {
  const { values, rest } = served(
    words.waiting,
    sliceOf(({ bytes = 0 }) => ({ entries: 1, bytes }), mostBytes),
  );
  const question = { id, nowMs, words: values, hasMore: rest.size > 0 };
  return { ...words, waiting: rest, question };
}

/** Whether its words are so few that to fold them in vain costs little. */
export const isQuick = ({ words, hasMore }: Question): boolean =>
  !hasMore &&
  words.length <= QUICK_WORDS &&
  words.reduce((sum, { bytes = 0 }) => sum + bytes, 0) <= QUICK_BYTES;

/** What the activity is asked: the list of words, and behind each other the values of those that have a proof: nothing else of the others counts. */
export function questionText(
  { workflowId }: Words,
  words: readonly Word[],
): { readonly list: WordsToCheck; readonly values: Uint8Array } {
  const covered = words.map(({ proof, value = NO_BYTES }) =>
    parseProof(proof) === undefined ? NO_BYTES : value,
  );
  const values = new Uint8Array(covered.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const value of covered) {
    values.set(value, at);
    at += value.length;
  }
  const list = words.map(({ proof, order, flaw }, index) => ({
    signal: order?.name ?? "inbox",
    ...(proof !== undefined && { proof }),
    ...(flaw !== undefined && { flaw }),
    bytes: covered[index]?.length ?? 0,
  }));
  return { list: { workflowId, words: list }, values };
}

/** What became of a word: what of it is heard, and why the rest is not. An order without a refusal is proven. */
export interface CheckedWord {
  readonly word: Word;
  readonly heard?: Brought;
  readonly refusal?: string;
}

/** Ends the question. */
export function settled(
  words: Words,
  { words: list }: Question,
  { refused }: WordVerdicts,
): { readonly words: Words; readonly all: readonly CheckedWord[] } {
  const reasons = new Map(
    refused.flatMap(({ reason, words: places }) => places.map((at) => [at, reason] as const)),
  );
  const seen = new Set(words.seen);
  const orderNumbers = [...words.orderNumbers];
  let { isProofNeeded } = words;
  const all = list.map((word, at): CheckedWord => {
    const proof = parseProof(word.proof);
    const { sinceMs: startedAtMs = words.startedAtMs } = word;
    const refusal = reasons.get(at) ?? staleWord(word.proof, { startedAtMs, seen });
    if (refusal !== undefined) {
      isProofNeeded ||= refusal === UNSIGNED || refusal === NO_PROOF;
      return { word, refusal };
    }
    if (proof === undefined) {
      // Everybody is trusted where it passes; the deployment may have come to that in the middle of a run.
      isProofNeeded = false;
      return word.order === undefined ? { word, heard: word } : { word };
    }
    seen.add(proof.nonce);
    if (word.order !== undefined) {
      orderNumbers.push(proof.nonce);
      return { word };
    }
    const { batch } = word;
    const entries: readonly unknown[] = Array.isArray(batch) ? batch : [batch];
    const said = entries.filter((entry) => maySayEntry(proof.role, entry));
    if (said.length === entries.length) return { word, heard: word };
    const refusalOfRest = `role ${proof.role} does not say this`;
    return { word, heard: { ...word, batch: said }, refusal: refusalOfRest };
  });
  return {
    words: {
      ...words,
      seen,
      orderNumbers: orderNumbers.slice(-MOST_ORDER_NUMBERS),
      isProofNeeded,
      question: undefined,
    },
    all,
  };
}
