/**
 * @file The fleet's inbox: what signals have brought and the ledger has not folded yet.
 *
 * A signal costs the same however many came before it. From `BOUNDED_RULES` on the inbox looks at each entry before it keeps it: one that is
 * too large or has no known kind is junk, of which only a count by sender and the newest piece are kept, for the dead letters. What remains is
 * folded in slices; a turn folds one, and a timer comes before the next (`fleet.ts`), so that no flood keeps the workflow's thread.
 * Before these rules all that has come is kept, and folded at once.
 */

import { isInboxKind } from "../../domain/lease/inbox-entry.ts";
import type { JunkNote } from "../../scheduling/ledger/ledger.ts";
import { appended, inOrder, type Chain } from "../../lib/chain.ts";
import { jsonStart } from "../../lib/json-size.ts";

export interface Inbox {
  /** Batches in the order of their arrival: the oldest, with those behind it; then those after these, newest first. */
  readonly oldest: Queued | undefined;
  readonly newest: Chain<Batch> | undefined;
  readonly batchCount: number;
  /** By code and sender; bounded. */
  readonly junk: ReadonlyMap<string, Junk>;
}

interface Batch {
  readonly entries: readonly unknown[];
  readonly bytes: number;
}

interface Queued {
  readonly batch: Batch;
  readonly next: Queued | undefined;
}

interface Junk extends Omit<JunkNote, "entry"> {
  readonly newest: unknown;
}

/** What one signal has brought. */
export interface Brought {
  readonly batch: unknown;
  /** Of its payload. */
  readonly bytes?: number;
  /** As the client that sent it calls itself. */
  readonly sender?: string;
  /** The run has no room for further requests. */
  readonly isShed?: boolean;
}

/** A signal of a name that no fleet knows. */
export interface UnknownSignal {
  readonly signal: string;
  readonly bytes: number;
  readonly sender: string;
}

export const EMPTY_INBOX: Inbox = {
  oldest: undefined,
  newest: undefined,
  batchCount: 0,
  junk: new Map(),
};

/** Senders pack at most 256 Ki characters of JSON, or one entry. */
const MAX_BATCH_BYTES = 1024 * 1024;
/** Of one slice, unless a single batch has more. About 50 ms of folding. */
const SLICE_ENTRIES = 1_000;
const SLICE_BYTES = 512 * 1024;
const MAX_JUNK_SENDERS = 16;
const MAX_SENDER_CHARACTERS = 100;
const SAMPLE_CHARACTERS = 500;
const NAMELESS = "a client without a name";
/** All senders for whom there is no more room. */
const OTHERS = "others";

/** Larger payloads are not even decoded. */
export const mayBeRead = (bytes: number): boolean => bytes <= MAX_BATCH_BYTES;

export const isEmpty = ({ batchCount, junk }: Inbox): boolean =>
  batchCount === 0 && junk.size === 0;

/** Keeps whatever has come, as a list of entries. */
export function keepAll(inbox: Inbox, batch: unknown): Inbox {
  const entries: readonly unknown[] = Array.isArray(batch) ? batch : [batch];
  return entries.length === 0 ? inbox : push(inbox, { entries, bytes: 0 });
}

/** Keeps the entries that the ledger may understand, and counts the others. */
export function keepEntries(inbox: Inbox, brought: Brought): Inbox {
  const { batch, bytes = 0, sender = "", isShed = false } = brought;
  if (!mayBeRead(bytes)) {
    const message = `a signal has more than ${MAX_BATCH_BYTES} bytes; larger ones are not read`;
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
  const kept = entries.length === 0 ? inbox : push(inbox, { entries, bytes });
  if (entries.length === all.length) return kept;
  const newest = all.filter((entry) => !mayBeEntry(entry)).at(-1);
  const times = all.length - entries.length;
  const message = "an inbox entry is wrong: it is no map with a known kind";
  return withJunk(kept, { code: "EntryMalformed", message, sender, newest, times });
}

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

export function takeAll({ oldest, newest }: Inbox): Slice {
  const queue = oldest === undefined ? inOrder(newest) : [...batchesOf(oldest), ...inOrder(newest)];
  return { entries: queue.flatMap(({ entries }) => entries), junk: [], rest: EMPTY_INBOX };
}

/** The oldest batches up to the size of a slice, and all junk. Cost: O(slice), and once O(1) for each batch. */
export function takeSlice({ oldest, newest, batchCount, junk }: Inbox): Slice {
  const entries: unknown[] = [];
  let bytes = 0;
  let taken = 0;
  let front = oldest ?? queued(newest);
  const back = oldest === undefined ? undefined : newest;
  let rest = back;
  while (front !== undefined) {
    const { batch } = front;
    const isFull =
      entries.length + batch.entries.length > SLICE_ENTRIES || bytes + batch.bytes > SLICE_BYTES;
    if (taken > 0 && isFull) break;
    for (const entry of batch.entries) entries.push(entry);
    bytes += batch.bytes;
    taken += 1;
    front = front.next;
    if (front === undefined) [front, rest] = [queued(rest), undefined];
  }
  return {
    entries,
    junk: [...junk.values()].map(noteOf),
    rest: {
      oldest: front,
      newest: rest,
      batchCount: batchCount - taken,
      junk: EMPTY_INBOX.junk,
    },
  };
}

const push = (inbox: Inbox, batch: Batch): Inbox => ({
  ...inbox,
  newest: appended(inbox.newest, batch),
  batchCount: inbox.batchCount + 1,
});

/** Oldest first. */
function queued(chain: Chain<Batch> | undefined): Queued | undefined {
  let front: Queued | undefined;
  for (let link = chain; link !== undefined; link = link.before)
    front = { batch: link.last, next: front };
  return front;
}

function* batchesOf(oldest: Queued): Generator<Batch> {
  for (let at: Queued | undefined = oldest; at !== undefined; at = at.next) yield at.batch;
}

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
