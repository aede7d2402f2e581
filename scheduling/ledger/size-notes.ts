/**
 * @file The sizes of what a ledger notes of the past, in bytes of JSON, without writing any of it: they are measured after most events.
 *
 * Equal to the sizes of the packed forms (codec-notes.ts). Cost: O(notes), and O(1) numbers for a new run. Replayed: a change of behaviour here needs a new version of the
 * rules (`NEWEST_RULES`).
 */

import type { DemandTrace, RunNote } from "./ledger.ts";
import { COMMA, jsonBytes, numberBytes } from "./size-table.ts";

/** Of `packRuns` with its texts. */
export function runsBytes(notes: readonly RunNote[]): number {
  const indexes = new Map<string, number>();
  let formerMs = 0;
  let bytes = 0;
  for (const note of notes) {
    bytes +=
      numberBytes(indexIn(indexes, note.class)) +
      numberBytes(indexIn(indexes, note.tenant)) +
      runBytes(note, formerMs);
    formerMs = note.endedAtMs;
  }
  return (
    jsonBytes({ texts: [...indexes.keys()], notes: [] }) + bytes + commasOf(RUN * notes.length)
  );
}

/** Numbers of a run. */
const RUN = 7;

/** Of the numbers of a run behind one that ended at `formerMs`, without its texts. Runs do not change, and mostly stay behind the same one. */
const RUNS = new WeakMap<RunNote, { readonly formerMs: number; readonly bytes: number }>();

function runBytes(note: RunNote, formerMs: number): number {
  const known = RUNS.get(note);
  if (known?.formerMs === formerMs) return known.bytes;
  const { gpus, submittedAtMs, grantedAtMs, endedAtMs, timeLimitMs = -1 } = note;
  const bytes =
    numberBytes(gpus) +
    numberBytes(endedAtMs - formerMs) +
    numberBytes(grantedAtMs - submittedAtMs) +
    numberBytes(endedAtMs - grantedAtMs) +
    numberBytes(timeLimitMs);
  RUNS.set(note, { formerMs, bytes });
  return bytes;
}

function indexIn(indexes: Map<string, number>, text: string): number {
  const known = indexes.get(text);
  if (known !== undefined) return known;
  indexes.set(text, indexes.size);
  return indexes.size - 1;
}

const commasOf = (numbers: number): number => COMMA * Math.max(0, numbers - 1);

/** Of `packDemand`. */
export function demandBytes({ gpus, slots }: DemandTrace): number {
  let former = 0;
  let bytes = jsonBytes([]) + numberBytes(gpus) + commasOf(1 + SLOT * slots.length);
  for (const [slot, start, most] of slots) {
    bytes += numberBytes(slot - former) + numberBytes(start) + numberBytes(most - start);
    former = slot;
  }
  return bytes;
}

/** Numbers of a slot. */
const SLOT = 3;
