/**
 * @file The fleet's inbox: what signals have brought and the ledger has not folded yet.
 *
 * A signal costs the same however many came before it. From `BOUNDED_RULES` on the inbox looks at each entry before it keeps it: one that is
 * too large or has no known kind is junk, of which only a count by sender and the newest piece are kept, for the dead letters. What remains is
 * folded in slices; a turn folds one, and a timer comes before the next (`fleet.ts`), so that no flood keeps the workflow's thread. From
 * `FAIR_INBOX_RULES` on those who sent share the slices. Before `BOUNDED_RULES` all that has come is kept, and folded at once.
 */

import { isInboxKind } from "../../domain/lease/inbox-entry.ts";
import {
  FAIR_INBOX_RULES,
  isBounded,
  type JunkNote,
  type Ledger,
} from "../../scheduling/ledger/ledger.ts";
import { FLOODED_TURNS_RULES, SHORT_WORDS_RULES } from "../../scheduling/ledger/upgrade.ts";
import { allWaiting, joined, NOTHING_WAITS, served, type FairQueue } from "../../lib/fair-queue.ts";
import { isDeeperThan, jsonStart, MAX_JSON_DEPTH } from "../../lib/json-size.ts";

export interface Inbox {
  readonly batches: FairQueue<Batch>;
  /** By code and sender; bounded. */
  readonly junk: ReadonlyMap<string, Junk>;
}

interface Batch {
  readonly entries: readonly unknown[];
  readonly bytes: number;
}

interface Junk extends Omit<JunkNote, "entry"> {
  readonly newest: unknown;
}

/** What one signal has brought. */
export interface Brought {
  readonly batch: unknown;
  /** Of its payload. */
  readonly bytes?: number;
  /** Of history, beside them. */
  readonly sideBytes?: number;
  /** As the client that sent it calls itself. */
  readonly sender?: string;
  /** With which others it waits in one line; absent in that of all others. */
  readonly lane?: string;
  /** The run has no room for further requests. */
  readonly isShed?: boolean;
  /** Of what is read; `MAX_BATCH_BYTES` by default. */
  readonly mostBytes?: number;
}

/** A signal of a name that no fleet knows. */
export interface UnknownSignal {
  readonly signal: string;
  readonly bytes: number;
  readonly sideBytes?: number;
  readonly sender: string;
}

export const EMPTY_INBOX: Inbox = {
  batches: NOTHING_WAITS,
  junk: new Map(),
};

/** By rules before `SHORT_WORDS_RULES`: senders packed 256 Ki characters of JSON, of up to three bytes each. */
export const MAX_BATCH_BYTES = 1024 * 1024;
/** Senders pack at most 256 KiB of entries, or one, of which no larger one is read; and 500 commas. */
const MOST_WORD_BYTES = 257 * 1024;
/** Of one slice, unless a single batch has more. About 50 ms of folding. */
const SLICE_ENTRIES = 1_000;
export const SLICE_BYTES = 512 * 1024;
const MAX_JUNK_SENDERS = 16;
const MAX_SENDER_CHARACTERS = 100;
const SAMPLE_CHARACTERS = 500;
const NAMELESS = "a client without a name";
/** All senders for whom there is no more room. */
const OTHERS = "others";

type Rules = Pick<Ledger, "applyVersion">;

/** Of a signal to a fleet. */
export const mostWordBytes = ({ applyVersion }: Rules): number =>
  applyVersion >= SHORT_WORDS_RULES ? MOST_WORD_BYTES : MAX_BATCH_BYTES;

/** Whether a fleet reads a signal of so many bytes; a larger one is not even decoded, and dropped whoever sent it. */
export const isRead = (rules: Rules, bytes: number): boolean =>
  !isBounded(rules) || bytes <= mostWordBytes(rules);

/** Whether a value is deeper than anything that is meant; what is too deep to be written again was not even read (`workflows/runtime/payload-converter.ts`). Cost: O(value). */
export const isTooDeep = (
  { applyVersion }: Pick<Ledger, "applyVersion">,
  value: unknown,
): boolean => applyVersion >= FLOODED_TURNS_RULES && isDeeperThan(value, MAX_JSON_DEPTH);

/** Everybody waits in the line of the name that they claim; by former rules all did in one. */
export const laneOf = (
  { applyVersion }: Pick<Ledger, "applyVersion">,
  { sender = "" }: Pick<Brought, "sender">,
): string => (applyVersion >= FAIR_INBOX_RULES ? sender : "");

/** What a batch takes of its sender's share, in bytes: an entry takes at least its part of a slice. */
export const costOf = ({ batch, bytes = 0 }: Pick<Brought, "batch" | "bytes">): number =>
  Math.max(bytes, (Array.isArray(batch) ? batch.length : 1) * (SLICE_BYTES / SLICE_ENTRIES), 1);

/** A slice in the making: whether the next batch still fits in, the first one always. */
export function sliceOf<Item>(
  sizeOf: (item: Item) => { readonly entries: number; readonly bytes: number },
  mostBytes: number = SLICE_BYTES,
): (item: Item) => boolean {
  let entries = 0;
  let bytes = 0;
  let count = 0;
  return (item) => {
    const size = sizeOf(item);
    entries += size.entries;
    bytes += size.bytes;
    count += 1;
    return count === 1 || (entries <= SLICE_ENTRIES && bytes <= mostBytes);
  };
}

export const isEmpty = ({ batches, junk }: Inbox): boolean => batches.size === 0 && junk.size === 0;

/** Keeps whatever has come, as a list of entries. */
export function keepAll(inbox: Inbox, batch: unknown): Inbox {
  const entries: readonly unknown[] = Array.isArray(batch) ? batch : [batch];
  return entries.length === 0 ? inbox : push(inbox, { entries, bytes: 0 }, undefined);
}

/** Keeps the entries that the ledger may understand, and counts the others. */
export function keepEntries(inbox: Inbox, brought: Brought): Inbox {
  const { batch, bytes = 0, sender = "", isShed = false, mostBytes = MAX_BATCH_BYTES } = brought;
  if (bytes > mostBytes) {
    const message = `a signal has more than ${mostBytes} bytes; larger ones are not read`;
    return withJunk(inbox, { code: "EntryTooLarge", message, sender, newest: undefined });
  }
  const sent: readonly unknown[] = Array.isArray(batch) ? batch : [batch];
  const all = isShed ? sent.filter((entry) => !isRequest(entry)) : sent;
  if (all.length < sent.length) {
    const note = {
      code: "LedgerFull",
      message: SHED,
      sender,
      newest: sent.find(isRequest),
    } as const;
    const shed = withJunk(inbox, { ...note, times: sent.length - all.length });
    return keepEntries(shed, { ...brought, batch: all, isShed: false });
  }
  const entries = all.filter(mayBeEntry);
  const kept = entries.length === 0 ? inbox : push(inbox, { entries, bytes }, brought.lane);
  if (entries.length === all.length) return kept;
  const newest = all.filter((entry) => !mayBeEntry(entry)).at(-1);
  const times = all.length - entries.length;
  const message = "an inbox entry is wrong: it is no map with a known kind";
  return withJunk(kept, { code: "EntryMalformed", message, sender, newest, times });
}

/** Counts a signal of a value that is too deep; nobody looks at its proof. */
export const keepTooDeep = (inbox: Inbox, { batch, sender = "" }: Brought): Inbox =>
  withJunk(inbox, {
    code: "EntryMalformed",
    message: "a signal is nested deeper than anything that is meant",
    sender,
    newest: batch,
  });

export const keepUnknownSignal = (inbox: Inbox, { signal, sender }: UnknownSignal): Inbox =>
  withJunk(inbox, {
    code: "EntryMalformed",
    message: `a fleet knows no signal ${jsonStart(signal, MAX_SENDER_CHARACTERS)}`,
    sender,
    newest: undefined,
  });

/** Counts a word, or the part of one, of which nobody knows who said it. */
export const keepUnproven = (
  inbox: Inbox,
  { batch, sender = "" }: Brought,
  reason: string,
): Inbox =>
  withJunk(inbox, {
    code: "EntryUnproven",
    message: `a word to the fleet is not believed: ${reason}`,
    sender,
    newest: batch,
  });

export interface Slice {
  readonly entries: readonly unknown[];
  readonly junk: readonly JunkNote[];
  readonly rest: Inbox;
}

export const takeAll = ({ batches }: Inbox): Slice => ({
  entries: allWaiting(batches).flatMap(({ entries }) => entries),
  junk: [],
  rest: EMPTY_INBOX,
});

/** The batches whose turn it is up to the size of a slice, and all junk. */
export function takeSlice({ batches, junk }: Inbox): Slice {
  const { values, rest } = served(
    batches,
    sliceOf(({ entries, bytes }) => ({ entries: entries.length, bytes })),
  );
  return {
    entries: values.flatMap(({ entries }) => entries),
    junk: [...junk.values()].map(noteOf),
    rest: { batches: rest, junk: EMPTY_INBOX.junk },
  };
}

const push = (inbox: Inbox, batch: Batch, lane = ""): Inbox => ({
  ...inbox,
  batches: joined(inbox.batches, {
    key: lane,
    cost: costOf({ batch: batch.entries, bytes: batch.bytes }),
    value: batch,
  }),
});

/** The ledger reads the rest of the entry; here counts what tells most junk for certain. */
const mayBeEntry = (entry: unknown): boolean =>
  typeof entry === "object" && entry !== null && "kind" in entry && isInboxKind(entry.kind);

const isRequest = (entry: unknown): boolean =>
  typeof entry === "object" && entry !== null && "kind" in entry && entry.kind === "request";

const SHED = "more requests came than a run of the fleet can take; all jobs are asked again soon";

function withJunk(
  inbox: Inbox,
  { times = 1, ...piece }: Omit<Junk, "times"> & { readonly times?: number },
): Inbox {
  const named = piece.sender === "" ? NAMELESS : piece.sender.slice(0, MAX_SENDER_CHARACTERS);
  const keyFor = (sender: string): string => `${piece.code} ${sender}`;
  const hasRoom = inbox.junk.has(keyFor(named)) || inbox.junk.size < MAX_JUNK_SENDERS;
  const sender = hasRoom ? named : OTHERS;
  const before = inbox.junk.get(keyFor(sender))?.times ?? 0;
  const junk = new Map(inbox.junk).set(keyFor(sender), { ...piece, sender, times: before + times });
  return { ...inbox, junk };
}

const noteOf = ({ newest, ...note }: Junk): JunkNote => ({
  ...note,
  entry: newest === undefined ? "" : jsonStart(newest, SAMPLE_CHARACTERS),
});
