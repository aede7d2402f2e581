/**
 * @file The turn that follows if all words pass whose proof is being looked at, so that its plan is asked for in the same activity.
 *
 * It is played once, before the proof, and kept, whatever it comes to: the turn that comes is that one, with what has come meanwhile for the next. Where a word is
 * refused, the inbox has changed, or the run may end, the turn is played anew, from the state before. Cost: that of the turn; of both turns the size of the ledger where it
 * is played anew, because indexes are handed on to one successor of a ledger only (`scheduling/ledger/apply/kept-accounts.ts`).
 */

import type { FeedAt } from "../../protocol/control-contract.ts";
import type { WordVerdicts } from "../../protocol/word-proof.ts";
import { mayContinue, mustContinue } from "./continue.ts";
import { update, type FleetState, type FleetStep } from "./state.ts";
import { isQuick, type Question } from "./words.ts";

/** From these rules on the plan that follows if all words pass is asked for together with their proof (docs/decisions/0172). */
const JOINT_TURN_RULES = 8;
/** Requests and leases of a ledger for which a turn is played that may come otherwise. */
const MOST_HELD = 256;

type PlayTurn = (begun: FleetStep, question: Question, verdicts: WordVerdicts) => FleetStep;

/** What the turn will ask the decider, if that is what it comes to. `spent`: with the question about its words, which takes the next id. */
export function playAhead(
  spent: FleetStep,
  play: PlayTurn,
): { readonly step: FleetStep; readonly question?: FeedAt } {
  const { state } = spent;
  const question = state.words?.question;
  if (question === undefined || !mayPlay(state, question)) return { step: spent };
  const asked = { state: { ...state, nextId: state.nextId + 1 }, commands: [] };
  const end = play(asked, question, { refused: [] });
  const ahead = { ...{ inbox: state.inbox, spent: state.spent }, end };
  const step = update(spent, { ahead });
  const last = end.commands.at(-1);
  if (last?.kind !== "decide-next") return { step };
  return { step, question: { feed: last.feed, nowMs: last.nowMs } };
}

const mayPlay = ({ ledger }: FleetState, question: Question): boolean =>
  ledger.applyVersion >= JOINT_TURN_RULES &&
  ledger.requests.size + ledger.leases.size <= MOST_HELD &&
  isQuick(question);

/** The turn that was played ahead, with what waits for the next; undefined where it comes otherwise. */
export function turnAhead({ state }: FleetStep, { refused }: WordVerdicts): FleetStep | undefined {
  const { ahead, words, spent, inbox, isOverrun } = state;
  if (ahead === undefined || refused.length > 0 || ahead.inbox !== inbox) return undefined;
  const { end } = ahead;
  if (words === undefined || end.state.words === undefined) return undefined;
  const reached = update(end, {
    words: { ...end.state.words, waiting: words.waiting },
    arrived: state.arrived,
    isOverrun: end.state.isOverrun || isOverrun,
    spent: {
      events: end.state.spent.events + spent.events - ahead.spent.events,
      bytes: end.state.spent.bytes + spent.bytes - ahead.spent.bytes,
    },
  });
  return isAtEnd(reached, end) ? undefined : reached;
}

/** Whether the run might have ended instead. A turn without a question has posted what it holds, so what was under way before that is not known any more. */
const isAtEnd = ({ state }: FleetStep, end: FleetStep): boolean =>
  isAsking(end) ? mustContinue(state) : mayContinue(state);

const isAsking = ({ commands }: FleetStep): boolean => commands.at(-1)?.kind === "decide-next";
