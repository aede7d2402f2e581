/**
 * @file Folds the signals that a lobby has received: new rows, credits, and jobs that have left.
 *
 * Every word may come twice, late, or before the word that it follows. A row whose job has left already is not taken in, as far as the lobby
 * remembers; a credit that it knows already is not new, unless so much time has passed that the job may not have heard.
 */

import { JOB_CLASSES, type JobClass } from "../../domain/job/job.ts";
import type { LobbyCredit, LobbyRow } from "../../domain/lease/lobby.ts";
import type { Leaver } from "../../protocol/lobby-contract.ts";
import type { LobbyLeave } from "../../protocol/lobby.ts";
import type { Called, Lobby, LobbyWord } from "./lobby-state.ts";
import { isNewer, keyOf, withRows, type Queue } from "./queue.ts";
import { isLeave, readCreditsFrom, readNews } from "./words.ts";

/** A fleet that gives a credit again after this time has not heard of the job that was called in with it. */
const CALL_AGAIN_MS = 30_000;

/** What the words change, by the order in which they came. */
interface Folding {
  readonly rows: Map<JobClass, Map<string, LobbyRow>>;
  readonly left: Map<JobClass, Map<string, Leaver>>;
  readonly credits: Map<number, LobbyCredit>;
  readonly called: Map<number, Called>;
  readonly forgetsCalls: boolean;
  /** Credits in `called` by `keyOf` their jobs; in runs that free one, the last alone. */
  readonly callsOf: ReadonlyMap<string, readonly number[]>;
  /** Credits under which those are being called who have left. */
  readonly leftCalls: Set<number>;
  /** Credits with lower numbers are of a lost ledger; 0 where none was lost. */
  forgetsBelow: number;
  /** Whether rows came or jobs left: the fleet is to hear how many wait. */
  isCountOld: boolean;
}

export function foldArrivals(lobby: Lobby, nowMs: number): Lobby {
  if (lobby.arrivals === undefined) return lobby;
  const folding: Folding = {
    rows: new Map(JOB_CLASSES.map((name) => [name, new Map()])),
    left: new Map(JOB_CLASSES.map((name) => [name, new Map(lobby.queues[name].left)])),
    credits: new Map(lobby.credits.map((credit) => [credit.number, credit])),
    called: new Map(lobby.called),
    forgetsCalls: lobby.forgetsCalls === true,
    callsOf: callsOf(lobby),
    leftCalls: new Set(lobby.calling?.left),
    forgetsBelow: 0,
    isCountOld: false,
  };
  for (const word of wordsOf(lobby)) foldWord(folding, word, { lobby, nowMs });
  const { reported, telling, calling, ...rest } = lobby;
  const { forgetsBelow } = folding;
  const isKept = (number: number): boolean => number >= forgetsBelow;
  return {
    ...rest,
    ...(calling !== undefined && { calling: { ...calling, left: folding.leftCalls } }),
    ...(reported !== undefined && !folding.isCountOld && { reported }),
    ...(telling !== undefined && {
      telling: {
        ...telling,
        ...(folding.isCountOld && { isOld: true }),
        // Lobbies of former releases cut off what came after their question as well, and replay so.
        ...(lobby.forgetsAll !== true && {
          returned: lobby.returned.slice(0, telling.returned).filter(isKept).length,
        }),
      },
    }),
    ...(forgetsBelow > 0 && {
      returned: lobby.returned.filter(isKept),
      tellAtMs: nowMs,
      retryAtMs: 0,
    }),
    arrivals: undefined,
    queues: {
      inference: folded(lobby.queues.inference, folding),
      interactive: folded(lobby.queues.interactive, folding),
      training: folded(lobby.queues.training, folding),
    },
    credits: [...folding.credits.values()],
    called: folding.called,
  };
}

function callsOf({ called, freesOne }: Lobby): ReadonlyMap<string, readonly number[]> {
  const calls = new Map<string, number[]>();
  for (const [number, { row }] of called) {
    const key = keyOf(row);
    const known = freesOne === true ? undefined : calls.get(key);
    if (known === undefined) calls.set(key, [number]);
    else known.push(number);
  }
  return calls;
}

/** In the order in which they came. */
function wordsOf({ arrivals }: Lobby): readonly LobbyWord[] {
  const words: LobbyWord[] = [];
  for (let each = arrivals; each !== undefined; each = each.before) words.push(each.word);
  return words.reverse();
}

interface Present {
  readonly lobby: Lobby;
  readonly nowMs: number;
}

function foldWord(folding: Folding, word: LobbyWord, present: Present): void {
  switch (word.kind) {
    case "news": {
      const { rows, credits } = readNews(word.news);
      if (rows.length > 0) folding.isCountOld = true;
      for (const row of rows) foldRow(folding, row);
      for (const credit of credits) foldCredit(folding, credit, present);
      return;
    }
    case "leave":
      if (!isLeave(word.leave)) return;
      folding.isCountOld = true;
      for (const [number, { row }] of present.lobby.calling?.calls ?? [])
        if (keyOf(row) === keyOf(word.leave) && row.seq <= word.leave.seq)
          folding.leftCalls.add(number);
      foldLeave(folding, word.leave);
      return;
    case "report-again": {
      // The fleet has forgotten its credits; the jobs that were called in are asked by the fleet itself.
      const from = readCreditsFrom(word.again);
      for (const known of [folding.credits, folding.called])
        for (const number of [...known.keys()]) if (number < from) known.delete(number);
      folding.forgetsBelow = Math.max(folding.forgetsBelow, from);
      folding.isCountOld = true;
      return;
    }
  }
}

function foldRow(folding: Folding, row: LobbyRow): void {
  const { rows, left, called, callsOf } = folding;
  const key = keyOf(row);
  const [, , leftSeq = -1] = left.get(row.class)?.get(key) ?? [];
  if (row.seq <= leftSeq) return;
  const here = rows.get(row.class);
  if (isNewer(row, here?.get(key))) here?.set(key, row);
  // It was called in, and waits outside again.
  const credit = callsOf.get(key)?.at(-1);
  const call = credit === undefined ? undefined : called.get(credit);
  if (credit === undefined || call === undefined) return;
  if (row.seq <= call.row.seq || folding.forgetsCalls) called.delete(credit);
  else called.set(credit, { ...call, isOvertaken: true });
}

function foldLeave(folding: Folding, { jobId, runId, seq, class: name }: LobbyLeave): void {
  const key = keyOf({ jobId, runId });
  const row = folding.rows.get(name)?.get(key);
  if (row !== undefined && row.seq <= seq) {
    folding.rows.get(name)?.delete(key);
    return;
  }
  const calls = (folding.callsOf.get(key) ?? []).flatMap((number) => {
    const call = folding.called.get(number);
    return call !== undefined && isFreed(call, seq) ? [call] : [];
  });
  for (const { credit } of calls) {
    folding.called.delete(credit.number);
    folding.credits.set(credit.number, credit);
  }
  if (calls.length > 0) return;
  const left = folding.left.get(name);
  const [, , former = -1] = left?.get(key) ?? [];
  if (former < seq) left?.set(key, [jobId, runId, seq]);
}

const isFreed = ({ row, isOvertaken }: Called, seq: number): boolean =>
  isOvertaken ? row.seq === seq : row.seq <= seq;

function foldCredit(folding: Folding, credit: LobbyCredit, { lobby, nowMs }: Present): void {
  const { number } = credit;
  if (lobby.returned.includes(number) || lobby.calling?.calls.has(number) === true) return;
  const call = folding.called.get(number);
  if (call === undefined || nowMs - call.atMs >= CALL_AGAIN_MS) folding.credits.set(number, credit);
}

/** Without the rows of jobs that have left, where they are in memory. */
function folded(queue: Queue, { rows, left }: Folding): Queue {
  const leavers = new Map(left.get(queue.class));
  const fresh = [...(rows.get(queue.class)?.values() ?? [])];
  const isUnchanged = fresh.length === 0 && leavers.size === queue.left.size;
  const there = queue.rows.filter((row) => {
    const key = keyOf(row);
    const [, , seq = -1] = leavers.get(key) ?? [];
    if (seq < row.seq) return true;
    leavers.delete(key);
    return false;
  });
  if (isUnchanged && there.length === queue.rows.length) return queue;
  return { ...queue, left: leavers, rows: withRows(there, fresh) };
}
