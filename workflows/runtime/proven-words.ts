/**
 * @file Proof of who speaks to presences, lobbies and learners, which have other activities open while they ask.
 *
 * They have their words checked by a plain activity (docs/decisions/0014 says why by no local one); one question about all that wait. Cost: six events of
 * history a question, and the words' values once more.
 */

import type { UpdateDefinition } from "@temporalio/common";
import { ApplicationFailure, condition, proxyActivities, setHandler } from "@temporalio/workflow";
import type { JobActivities } from "../../protocol/control-contract.ts";
import { disbelievedQuery } from "../../protocol/messages.ts";
import type { Proven, WordActivities } from "../../protocol/word-proof.ts";
import { arrivedOrder } from "./arrived-orders.ts";
import { flawedInput, weigh } from "./signal-intake.ts";
import {
  areWordsWaiting,
  askForProof,
  believeAll,
  checkWaiting,
  disbelievedWords,
  holdBack,
  needsProof,
  waitingWords,
} from "./word-gate.ts";

export const BY_ACTIVITY: WordActivities = proxyActivities<WordActivities>({
  summary: "proof of who speaks",
  startToCloseTimeout: "10s",
  retry: { initialInterval: "100ms", maximumInterval: "5s" },
});

const { asksForProof } = proxyActivities<Pick<JobActivities, "asksForProof">>({
  summary: "whether words need proof",
  startToCloseTimeout: "30s",
  retry: { initialInterval: "500ms", maximumInterval: "10s" },
});

/** Of history: of a question, and of a word with the answer to it. */
const EVENTS_PER_CHECK = 6;
const EVENTS_PER_WORD = 4;

/** To be called before handlers are set: words wait until the fleet has said whether they need proof. */
export async function askFleetForProof(fleetWorkflowId: string): Promise<void> {
  askForProof({ ofOrders: true });
  if (!(await asksForProof(fleetWorkflowId, flawedInput()))) believeAll();
}

/** Of this run. */
let isChecking = false;

/** Whether words wait or are looked at: a run that ended now would lose them. */
export const isHearing = (): boolean => isChecking || areWordsWaiting();

/** Has the words that wait checked, and hands on those that pass. Returns what that costs of the history, in events, about. */
export async function hearWords(): Promise<number> {
  isChecking = true;
  const cost = EVENTS_PER_CHECK + EVENTS_PER_WORD * waitingWords();
  const handOn = await checkWaiting(BY_ACTIVITY);
  handOn();
  isChecking = false;
  return cost;
}

/** Hears words as they come, beside whatever else the run does; for runs without local activities. `spend` is told what each time costs. */
export function keepHearing(spend: (events: number) => void): void {
  void (async () => {
    for (;;) {
      await condition(areWordsWaiting);
      spend(await hearWords());
    }
  })();
}

/** The answer of an update once it is proven who gives it; refused with NOT_ALLOWED where it is not. `isQuestion`: such an order needs no proof. */
export function onProvenUpdate<Order, Answer>(
  update: UpdateDefinition<Answer, Proven<Order>>,
  carryOut: (order: Order) => Answer | Promise<Answer>,
  {
    validate,
    isQuestion = () => false,
  }: {
    readonly validate?: (order: Order) => void;
    readonly isQuestion?: (order: Order) => boolean;
  } = {},
): void {
  const { name } = update;
  /** What it throws at once refuses, too. */
  const carriedOut = async (order: Order): Promise<Answer> => carryOut(order);
  setHandler(
    update,
    (order, proof) => {
      const arrived = arrivedOrder(proof);
      weigh(arrived);
      if (!needsProof(name) || isQuestion(order)) return carryOut(order);
      return new Promise<Answer>((answer, refuse) => {
        holdBack({
          signal: name,
          word: arrived,
          sender: arrived.sender,
          // At once: a moment later the run may have begun to end, because nothing waits any more.
          hear: () => answer(carriedOut(order)),
          refuse: (reason) => {
            const message = `the order ${name} is not believed: ${reason}`;
            refuse(ApplicationFailure.nonRetryable(message, "NOT_ALLOWED"));
          },
        });
      });
    },
    { validator: (order: Order, _proof?: string) => validate?.(order) },
  );
}

export function answerAboutDisbelieved(): void {
  setHandler(disbelievedQuery, disbelievedWords);
}
