/**
 * @file Hands a job's orders (updates) to their handlers: at once, or, in a run that asks for proof of orders, once it is proven who gives them.
 *
 * Such an update is answered with null; its order waits with the other words (`word-gate.ts`), is looked at once more when it is heard, and its outcome is
 * queried. Outcomes of proven orders have places of their own, so that nobody else pushes them out. Handlers neither wait nor throw anything but refusals.
 */

import type { UpdateDefinition } from "@temporalio/common";
import { ApplicationFailure, setHandler } from "@temporalio/workflow";
import {
  disbelievedQuery,
  orderQuery,
  type OrderOutcome,
  type Proven,
} from "../../protocol/messages.ts";
import { arrivedOrder } from "./arrived-orders.ts";
import { disbelievedWords, holdBack, needsProof } from "./word-gate.ts";

interface OrderHandler<Order, Answer> {
  /** Throws a refusal. */
  readonly check: (order: Order) => void;
  readonly carryOut: (order: Order) => Answer;
}

/** Outcomes of each kind that are kept. */
const MOST_OUTCOMES = 64;

/** Of this run; an array's handlers replace its job's. */
const handlers = new Map<string, OrderHandler<unknown, unknown>>();
const waiting = new Set<string>();
const proven = new Map<string, OrderOutcome>();
const unproven = new Map<string, OrderOutcome>();

/** `junk` counts an order that nobody believes. */
export function onOrder<Order, Answer>(
  update: UpdateDefinition<Answer | null, Proven<Order>>,
  { check, carryOut }: OrderHandler<Order, Answer>,
  junk: () => void,
): void {
  const { name } = update;
  // The sender's type is a promise, as with the SDK's own handlers: each check looks at what it reads.
  handlers.set(name, {
    check: (order) => check(order as Order),
    carryOut: (order) => carryOut(order as Order),
  });
  setHandler(
    update,
    (order, proof) => {
      const arrived = arrivedOrder(proof);
      if (!needsProof(name)) return carryOut(order);
      const { id, sender } = arrived;
      waiting.add(id);
      holdBack({
        signal: name,
        word: arrived,
        sender,
        hear: () => settle(proven, id, heard(name, order)),
        refuse: (reason) => {
          junk();
          const message = `the order ${name} is not believed: ${reason}`;
          settle(unproven, id, { kind: "refused", code: "NOT_ALLOWED", message });
        },
      });
      return null;
    },
    { validator: (order: Order, _proof?: string) => check(order) },
  );
}

export function answerAboutOrders(): void {
  setHandler(
    orderQuery,
    (id) => proven.get(id) ?? unproven.get(id) ?? { kind: waiting.has(id) ? "pending" : "unknown" },
  );
  setHandler(disbelievedQuery, disbelievedWords);
}

function heard(name: string, order: unknown): OrderOutcome {
  const handler = handlers.get(name);
  try {
    handler?.check(order);
    return { kind: "done", answer: handler?.carryOut(order) };
  } catch (error) {
    if (!(error instanceof ApplicationFailure)) throw error;
    return { kind: "refused", code: error.type ?? "NOT_ALLOWED", message: error.message };
  }
}

/** The first outcome of an id stays. */
function settle(outcomes: Map<string, OrderOutcome>, id: string, outcome: OrderOutcome): void {
  waiting.delete(id);
  if (outcomes.has(id)) return;
  outcomes.set(id, outcome);
  const [oldest] = outcomes.keys();
  if (outcomes.size > MOST_OUTCOMES && oldest !== undefined) outcomes.delete(oldest);
}
