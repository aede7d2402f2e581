/**
 * @file Holds words back until their sender's role is proven, in the runs that ask for it: of jobs, presences and lobbies, and of learners (`proven-words.ts`).
 *
 * `drive.ts` has all words that wait checked at once, by one local activity, when no other one is open; its answer is in history. Words that pass go to
 * their handlers in the order of their arrival, the others count as junk. A number that was used in this run does not count again.
 */

import { patched, proxyLocalActivities, workflowInfo } from "@temporalio/workflow";
import { MAX_BATCH_BYTES, sliceOf } from "../../machines/fleet/inbox.ts";
import { PROOF_MEMO } from "../../protocol/signed-job.ts";
import type { SealFlaw } from "../../protocol/seal.ts";
import {
  isOrder,
  parseProof,
  speakersOf,
  staleWord,
  USER,
  type Disbelieved,
  type WordActivities,
} from "../../protocol/word-proof.ts";

/** What of a signal its proof covers, and how it came. */
export interface Held {
  readonly proof?: string;
  readonly value: Uint8Array;
  readonly flaw?: SealFlaw;
}

interface Waiting {
  readonly signal: string;
  readonly word: Held;
  readonly sender: string;
  readonly hear: () => void;
  readonly refuse: (reason: string) => void;
}

const NO_BYTES = new Uint8Array();
/** More than any proof has, so that what is cut off proves nothing; a header has up to 4 MiB. */
const MOST_PROOF_CHARACTERS = 400;

const LOCALLY = proxyLocalActivities<WordActivities>({
  summary: "proof of who speaks",
  startToCloseTimeout: "10s",
  retry: { initialInterval: "100ms", maximumInterval: "5s" },
});

/** Of this run, as the handlers of `signal-intake.ts`. */
let isOn = false;
let areOrdersAsked = false;
const disbelieved = new Map<string, Disbelieved>();
const waiting: Waiting[] = [];
const seen = new Set<string>();
/** Whether words are kept, because it is not known yet whether they need proof. */
let areWordsKept = false;
/** What was heard before it is known whether the run asks for proof; undefined where nothing is kept. */
let heard: Waiting[] | undefined;

/** From now on, and of what was kept; `ofOrders`: of orders, too. */
export function askForProof({ ofOrders }: { readonly ofOrders: boolean }): void {
  isOn = true;
  areOrdersAsked = ofOrders;
}

/** Whether the word has to wait. */
export function needsProof(word: string): boolean {
  if (speakersOf(word) === undefined) return false;
  if (isOn) return areOrdersAsked || !isOrder(word);
  return areWordsKept && (!isOfUsers(word) || patched("kept-orders"));
}

const isOfUsers = (word: string): boolean => speakersOf(word)?.includes(USER) === true;

/**
 * Words and orders that may need proof wait until `askForProof` or `believeAll`. Runs of former releases carried people's orders out at once, and replay so:
 * the marker comes with the first such order of a run. What roles say has none, because a grant may come together with the admission live, and after it on
 * replay (docs/decisions/0014): under the rules of such runs it is heard just before the admission (`believeRoles`), as it was then.
 */
export function keepWords(): void {
  areWordsKept = true;
}

/** Of what was kept, what roles say is heard without a proof. */
export function believeRoles(): void {
  for (const word of waiting.splice(0))
    if (isOfUsers(word.signal)) waiting.push(word);
    else word.hear();
}

export function holdBack(word: Waiting): void {
  waiting.push(word);
}

/** Words that are heard from now on are kept, so that they can be doubted. */
export function keepHeard(): void {
  heard = [];
}

export function noteHeard(word: Waiting): void {
  if (speakersOf(word.signal) !== undefined) heard?.push(word);
}

/** Ends the keeping. `areDoubted`: proof is asked from now on, of what was kept, too; each word of it that passes is heard once more. */
export function settleHeard({ areDoubted }: { readonly areDoubted: boolean }): void {
  const kept = heard ?? [];
  heard = undefined;
  if (!areDoubted) return;
  askForProof({ ofOrders: true });
  waiting.push(...kept);
}

/** Nothing needs proof in this run; what waits is heard. */
export function believeAll(): void {
  isOn = false;
  areWordsKept = false;
  for (const { hear } of waiting.splice(0)) hear();
}

export const waitingWords = (): number => waiting.length;
export const areWordsWaiting = (): boolean => waiting.length > 0;

/** Asks about the words that wait, at most a slice of them; the answer hands them on. */
export async function checkWaiting({
  checkWords,
}: Pick<WordActivities, "checkWords"> = LOCALLY): Promise<() => void> {
  const slice = takeSlice();
  const { workflowId, startTime, memo } = workflowInfo();
  const submitted = memo?.[PROOF_MEMO];
  const words = slice.map(({ signal, word: { proof, value, flaw } }) => ({
    signal,
    ...(proof !== undefined && { proof: proof.slice(0, MOST_PROOF_CHARACTERS) }),
    ...(flaw !== undefined && { flaw }),
    bytes: coveredBy(proof, value).length,
  }));
  const asked = { workflowId, words, ...(typeof submitted === "string" && { submitted }) };
  const { refused } = await checkWords(asked, joined(slice));
  const reasons = new Map(
    refused.flatMap((each) => each.words.map((at) => [at, each.reason] as const)),
  );
  return () =>
    slice.forEach(({ signal, word, sender, hear, refuse }, at) => {
      const startedAtMs = startTime.getTime();
      const reason =
        sizeProblem(word) ?? reasons.get(at) ?? staleWord(word.proof, { startedAtMs, seen });
      const nonce = parseProof(word.proof)?.nonce;
      if (reason !== undefined) {
        noteDisbelieved({ sender, word: signal, reason });
        return refuse(reason);
      }
      if (nonce !== undefined) seen.add(nonce);
      hear();
    });
}

/** Counts by sender, of whom anybody may claim any name: for so many, and for all others together. */
const MOST_SENDERS = 16;
const MAX_NAME_CHARACTERS = 100;
const OTHERS = "others";

/** In no history: a run that continues another begins anew. */
export function noteDisbelieved({
  sender,
  word: signal,
  reason,
}: Omit<Disbelieved, "times" | "atMs">): void {
  const named = sender.slice(0, MAX_NAME_CHARACTERS);
  const word = signal.slice(0, MAX_NAME_CHARACTERS);
  const of = disbelieved.has(named) || disbelieved.size < MOST_SENDERS ? named : OTHERS;
  const times = (disbelieved.get(of)?.times ?? 0) + 1;
  disbelieved.set(of, { sender: of, times, word, reason, atMs: Date.now() });
}

export const disbelievedWords = (): readonly Disbelieved[] => [...disbelieved.values()];

function takeSlice(): readonly Waiting[] {
  const isTaken = sliceOf<Waiting>(({ word }) => ({ entries: 1, bytes: word.value.length }));
  const end = waiting.findIndex((each) => !isTaken(each));
  return waiting.splice(0, end < 0 ? waiting.length : end);
}

/**
 * Nothing of a word without a proof is looked at, or of one that is too large to be meant: a plain activity takes 2 MiB, as a signal does, so that with a list beside it
 * the largest signals would fit into none, and fail each task of the run for ever.
 */
const coveredBy = (proof: string | undefined, value: Uint8Array): Uint8Array =>
  parseProof(proof) === undefined || value.length > MAX_BATCH_BYTES ? NO_BYTES : value;

const sizeProblem = ({ value }: Held): string | undefined =>
  value.length <= MAX_BATCH_BYTES
    ? undefined
    : `it has more than ${MAX_BATCH_BYTES} bytes; larger ones are not read`;

function joined(slice: readonly Waiting[]): Uint8Array {
  const covered = slice.map(({ word: { proof, value } }) => coveredBy(proof, value));
  const all = new Uint8Array(covered.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const value of covered) {
    all.set(value, at);
    at += value.length;
  }
  return all;
}
