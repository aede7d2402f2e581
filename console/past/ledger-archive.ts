/**
 * @file Keeps what a followed fleet did, so that its ledger can be shown as it was at any instant: the ledger at the start of each block, and the
 * events folded since.
 *
 * An instant is the ledger after the last event at or before it, found by folding the block's events again with the fleet's own rules. The ledger of a
 * block is compressed at once, because the one that is followed soon shares little with it, and its events when it closes; the oldest blocks go when all together are too large, so the time that can be shown has a beginning. A block ends after so
 * many events, plans or characters: that bounds the work of showing an instant. Cost: one pack a block; of an instant O(ledger), and O(changes) for
 * each event of its block, because they change one ledger in place.
 */

import { deflateSync, inflateSync } from "node:zlib";
import type { PackedLedger } from "../../domain/lease/packed-ledger.ts";
import { openSession, type Session } from "../../scheduling/cycle/live-scheduler.ts";
import { packLedger, unpackLedger } from "../../scheduling/ledger/codec.ts";
import type { Ledger, LedgerEvent } from "../../scheduling/ledger/ledger.ts";
import type { DecisionRow } from "../../page/wire.ts";
import { decisionRow, isEmpty } from "../view/decisions.ts";

export interface LedgerArchive {
  /** A run of the fleet begins with this ledger. */
  readonly begin: (ledger: Ledger, atMs: number) => void;
  /** `ledger`: after the event. */
  readonly add: (event: LedgerEvent, ledger: Ledger) => void;
  /** Nothing more comes until the next `begin`. */
  readonly end: () => void;
  /** Undefined before the first block. */
  readonly at: (ms: number) => Instant | undefined;
  readonly span: () => { readonly fromMs: number; readonly toMs: number } | undefined;
  /** Of closed blocks. */
  readonly bytes: () => number;
}

export interface Instant {
  readonly ledger: Ledger;
  /** Of the last event at or before the instant. */
  readonly atMs: number;
  /** When something happened before and after it, as far as known. */
  readonly beforeMs?: number;
  readonly afterMs?: number;
  /** The last ones until then, oldest first. */
  readonly decisions: readonly DecisionRow[];
}

export interface ArchiveLimits {
  /** Of all closed blocks. */
  readonly bytes: number;
  /** Of one block. */
  readonly events: number;
  readonly plans: number;
  readonly characters: number;
}

export const ARCHIVE_LIMITS: ArchiveLimits = {
  bytes: 16 * 1024 * 1024,
  events: 1_000,
  plans: 200,
  characters: 4 * 1024 * 1024,
};

/** Level 3: a third of the time of the default, a tenth larger. */
const LEVEL = 3;
const SHOWN_DECISIONS = 20;

interface Block {
  readonly fromMs: number;
  readonly toMs: number;
  /** The last time before `toMs` at which something happened in it. */
  readonly beforeMs: number;
  /** Compressed, as are the events. */
  readonly base: Buffer;
  readonly events: Buffer;
}

interface OpenBlock {
  readonly fromMs: number;
  readonly base: Buffer;
  readonly events: LedgerEvent[];
  plans: number;
  characters: number;
}

export function createLedgerArchive(limits: ArchiveLimits = ARCHIVE_LIMITS): LedgerArchive {
  let closed: Block[] = [];
  let bytes = 0;
  let open: OpenBlock | undefined;

  function begin(ledger: Ledger, atMs: number): void {
    close();
    open = { fromMs: atMs, base: packed(packLedger(ledger)), events: [], plans: 0, characters: 0 };
  }

  function add(event: LedgerEvent, ledger: Ledger): void {
    if (open === undefined) return;
    open.events.push(event);
    open.characters += JSON.stringify(event).length;
    if (event.kind === "plan") open.plans += 1;
    const isFull =
      open.events.length >= limits.events ||
      open.plans >= limits.plans ||
      open.characters >= limits.characters;
    if (isFull) begin(ledger, event.nowMs);
  }

  function close(): void {
    if (open === undefined) return;
    const { base, events, fromMs } = open;
    const toMs = events.at(-1)?.nowMs ?? fromMs;
    const beforeMs = Math.max(fromMs, ...events.map(({ nowMs }) => (nowMs < toMs ? nowMs : 0)));
    const block = { fromMs, toMs, beforeMs, base, events: packed(events) };
    closed.push(block);
    bytes += sizeOf(block);
    open = undefined;
    while (bytes > limits.bytes) {
      const oldest = closed.shift();
      bytes -= oldest === undefined ? bytes : sizeOf(oldest);
    }
  }

  function at(ms: number): Instant | undefined {
    const isOpen = open !== undefined && ms >= open.fromMs;
    const next = isOpen ? closed.length : closed.findIndex(({ fromMs }) => fromMs > ms);
    const place = (next === -1 ? closed.length : next) - (isOpen ? 0 : 1);
    const found = isOpen ? open : closed[place];
    if (found === undefined) return undefined;
    return instantIn(contentOf(found), ms, {
      before: closed[place - 1],
      nextMs: isOpen ? undefined : (closed[place + 1]?.fromMs ?? open?.fromMs),
    });
  }

  return {
    begin,
    add,
    end: close,
    at,
    span() {
      const fromMs = closed[0]?.fromMs ?? open?.fromMs;
      if (fromMs === undefined) return undefined;
      const toMs = open?.events.at(-1)?.nowMs ?? open?.fromMs ?? closed.at(-1)?.toMs ?? fromMs;
      return { fromMs, toMs };
    },
    bytes: () => bytes,
  };
}

interface Opened {
  readonly base: Ledger;
  readonly events: readonly LedgerEvent[];
  readonly fromMs: number;
}

const packed = (content: unknown): Buffer => deflateSync(JSON.stringify(content), { level: LEVEL });

const sizeOf = ({ base, events }: Block): number => base.length + events.length;

/** `packed` wrote both parts. */
function contentOf({ base, events, fromMs }: Pick<Block | OpenBlock, keyof Opened>): Opened {
  return {
    base: unpackLedger(unpacked(base) as PackedLedger),
    events: Buffer.isBuffer(events) ? (unpacked(events) as readonly LedgerEvent[]) : events,
    fromMs,
  };
}

const unpacked = (part: Buffer): unknown => JSON.parse(String(inflateSync(part)));

/** `around`: the block before it, and when the next one begins. */
function instantIn(
  { base, events, fromMs }: Opened,
  ms: number,
  around: { readonly before: Block | undefined; readonly nextMs: number | undefined },
): Instant {
  const session = openSession(base);
  const decisions: DecisionRow[] = [];
  let atMs = fromMs;
  let { nextMs: afterMs } = around;
  let beforeMs = [around.before?.toMs, around.before?.beforeMs].find(
    (time) => (time ?? ms) < fromMs,
  );
  for (const event of events) {
    if (event.nowMs > ms) {
      afterMs = event.nowMs;
      break;
    }
    const row = applied(session, event);
    if (row !== undefined) decisions.push(row);
    if (decisions.length > SHOWN_DECISIONS) decisions.shift();
    if (event.nowMs > atMs) beforeMs = atMs;
    atMs = Math.max(atMs, event.nowMs);
  }
  return {
    ledger: session.ledger,
    atMs,
    decisions,
    ...(beforeMs !== undefined && { beforeMs }),
    ...(afterMs !== undefined && { afterMs }),
  };
}

/** Returns what a plan decided. */
function applied(session: Session, event: LedgerEvent): DecisionRow | undefined {
  if (event.kind !== "plan" || isEmpty(event.plan)) return void session.apply(event);
  const { plan, nowMs } = event;
  const { leases } = session.ledger;
  const evicted = new Map(
    (plan.evict ?? []).flatMap(({ lease: id }) => {
      const lease = leases.get(id);
      return lease === undefined ? [] : [[id, lease] as const];
    }),
  );
  const { refusals } = session.apply(event);
  return decisionRow({ plan, nowMs, before: { leases: evicted }, refusals });
}
