/**
 * @file Holds words back until their sender's role is proven, in the runs of jobs that ask for it.
 *
 * `drive.ts` has all words that wait checked at once, by one local activity, when no other one is open; its answer is in history. Words that pass go to
 * their handlers in the order of their arrival, the others count as junk. A number that was used in this run does not count again.
 */

import { proxyLocalActivities, workflowInfo } from "@temporalio/workflow";
import {
  parseProof,
  speakersOf,
  staleWord,
  type WordActivities,
} from "../../protocol/word-proof.ts";

/** What of a signal its proof covers. */
export interface Held {
  readonly proof?: string;
  readonly value: Uint8Array;
}

interface Waiting {
  readonly signal: string;
  readonly word: Held;
  readonly hear: () => void;
  readonly refuse: () => void;
}

const SLICE_WORDS = 1_000;
const SLICE_BYTES = 512 * 1024;

const { checkWords } = proxyLocalActivities<WordActivities>({
  startToCloseTimeout: "10s",
  retry: { initialInterval: "100ms", maximumInterval: "5s" },
});

/** Of this run, as the handlers of `signal-intake.ts`. */
let isOn = false;
const waiting: Waiting[] = [];
const seen = new Set<string>();

/** From now on. */
export function askForProof(): void {
  isOn = true;
}

export const needsProof = (signal: string): boolean => isOn && speakersOf(signal) !== undefined;

export function holdBack(word: Waiting): void {
  waiting.push(word);
}

export const areWordsWaiting = (): boolean => waiting.length > 0;

/** Asks about the words that wait, at most a slice of them; the answer hands them on. */
export async function checkWaiting(): Promise<() => void> {
  const slice = takeSlice();
  const { workflowId, startTime } = workflowInfo();
  const words = slice.map(({ signal, word: { proof, value } }) => ({
    signal,
    ...(proof !== undefined && { proof }),
    bytes: value.length,
  }));
  const { refused } = await checkWords({ workflowId, words }, joined(slice));
  const isRefused = new Set(refused.flatMap((each) => each.words));
  return () =>
    slice.forEach(({ word, hear, refuse }, at) => {
      const startedAtMs = startTime.getTime();
      const isStale = staleWord(word.proof, { startedAtMs, seen }) !== undefined;
      const nonce = parseProof(word.proof)?.nonce;
      if (isRefused.has(at) || isStale) return refuse();
      if (nonce !== undefined) seen.add(nonce);
      hear();
    });
}

function takeSlice(): readonly Waiting[] {
  let bytes = 0;
  let count = 0;
  for (const { word } of waiting) {
    bytes += word.value.length;
    if (count > 0 && (bytes > SLICE_BYTES || count >= SLICE_WORDS)) break;
    count += 1;
  }
  return waiting.splice(0, count);
}

function joined(slice: readonly Waiting[]): Uint8Array {
  const all = new Uint8Array(slice.reduce((sum, { word }) => sum + word.value.length, 0));
  let at = 0;
  for (const { word } of slice) {
    all.set(word.value, at);
    at += word.value.length;
  }
  return all;
}
