/**
 * @file Uses credits: each calls in exactly one job, the next of its class; a job that is gone passes its credit on.
 *
 * A credit that the fleet gives again goes to the job that was called in with it, which may not have heard. A credit for which nobody is left
 * goes back to the fleet.
 */

import type { LobbyCredit } from "../../domain/lease/lobby.ts";
import type { CallOrder } from "../../protocol/lobby-contract.ts";
import { quiet } from "../steps.ts";
import {
  isRetelling,
  issue,
  type Called,
  type Lobby,
  type LobbyEvent,
  type LobbyStep,
} from "./lobby-state.ts";
import { headOf, isBehindStore, keyOf, type Queue } from "./queue.ts";

/** One batch of calls at a time. */
const MAX_CALLS = 100;
/** Calls that the lobby remembers: longer than a fleet waits for their jobs. */
const MAX_CALLED = 1_000;

export function useCredits(lobby: Lobby, nowMs: number): LobbyStep {
  if (lobby.calling !== undefined || lobby.credits.length === 0) return quiet(lobby);
  const calls = new Map<number, Called>();
  const waiting: LobbyCredit[] = [];
  const returned: number[] = [];
  const queues = { ...lobby.queues };
  for (const credit of lobby.credits) {
    const queue = queues[credit.class];
    const before = lobby.called.get(credit.number);
    const again = before?.isOvertaken ? undefined : before?.row;
    const row = again ?? headOf(queue);
    const mayCome = isBehindStore(queue) || isRetelling(lobby);
    if (calls.size >= MAX_CALLS || (row === undefined && mayCome)) waiting.push(credit);
    else if (row === undefined) returned.push(credit.number);
    else {
      calls.set(credit.number, { credit, row, atMs: nowMs });
      if (again === undefined) queues[credit.class] = withoutHead(queue);
    }
  }
  const used: Lobby = {
    ...lobby,
    queues,
    credits: waiting,
    returned: [...lobby.returned, ...returned],
  };
  if (calls.size === 0) return quiet(used);
  return issue(used, (id) => ({
    change: { calling: { id, calls } },
    command: { kind: "call-in", id, calls: [...calls.values()].map(orderOf) },
  }));
}

/** O(rows in memory) a call, which is bounded. */
const withoutHead = (queue: Queue): Queue => ({ ...queue, rows: queue.rows.slice(1) });

const orderOf = ({ credit, row: { jobId, runId, seq, round } }: Called): CallOrder => ({
  credit: credit.number,
  jobId,
  runId,
  seq,
  round,
});

/**
 * The jobs have heard, but for those that are gone. The leave of one that was called again may have brought its credit back before; that of one who was called
 * under two credits has freed the former one alone.
 */
export function endCalls(
  lobby: Lobby,
  { id, gone, isFormer = false, isDeaf = false }: Extract<LobbyEvent, { readonly kind: "called" }>,
): Lobby {
  const { calling, ...rest } = lobby;
  if (calling?.id !== id) return lobby;
  const left = isDeaf ? [] : (calling.left ?? []);
  const isGone = new Set([...gone, ...leftMeanwhile(lobby, calling.calls), ...left]);
  const heard = [...calling.calls].filter(([number]) => !isGone.has(number));
  const passedOn = [...calling.calls.values()].filter(({ credit }) => isGone.has(credit.number));
  const numbers = new Set(calling.calls.keys());
  const called = [...lobby.called].filter(([number]) => !numbers.has(number));
  const isHere = new Set(isFormer ? [] : lobby.credits.map(({ number }) => number));
  const back = passedOn.map(({ credit }) => credit).filter(({ number }) => !isHere.has(number));
  return {
    ...rest,
    called: new Map([...called, ...heard].slice(-MAX_CALLED)),
    credits: [...back, ...lobby.credits],
  };
}

const leftMeanwhile = ({ queues }: Lobby, calls: ReadonlyMap<number, Called>): readonly number[] =>
  [...calls].flatMap(([number, { row }]) => {
    const [, , seq = -1] = queues[row.class].left.get(keyOf(row)) ?? [];
    return seq < row.seq ? [] : [number];
  });
