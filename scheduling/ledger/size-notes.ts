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
  const count = slots.length;
  const last = slots[count - 1];
  if (last === undefined) return jsonBytes([]) + numberBytes(gpus);
  const before = slots[count - 2];
  return (
    jsonBytes([]) +
    numberBytes(gpus) +
    commasOf(1 + SLOT * count) +
    pastBytes(slots) +
    slotBytes(last, before?.[0] ?? 0)
  );
}

/** Of all slots but the last, which alone still changes: kept while they are the same, because demand changes many times in each. */
function pastBytes(slots: DemandTrace["slots"]): number {
  const count = slots.length - 1;
  const known = PAST.get(slots);
  if (known !== undefined && known.count === count && known.first === slots[0]) return known.bytes;
  let former = 0;
  let bytes = 0;
  for (const slot of slots.slice(0, count)) {
    bytes += slotBytes(slot, former);
    former = slot[0];
  }
  const [first] = slots;
  PAST.set(slots, { count, first, bytes });
  return bytes;
}

interface Past {
  readonly count: number;
  readonly first: Slot | undefined;
  readonly bytes: number;
}

type Slot = DemandTrace["slots"][number];

const PAST = new WeakMap<DemandTrace["slots"], Past>();

const slotBytes = ([slot, start, most]: Slot, former: number): number =>
  numberBytes(slot - former) + numberBytes(start) + numberBytes(most - start);

/** Numbers of a slot. */
const SLOT = 3;
