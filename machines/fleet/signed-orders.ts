/**
 * @file Operators' orders to a fleet that asks for proof of who gives them: accepted as pending, checked with the other words of a turn, then looked up.
 *
 * What is not proven is counted among the dead letters, as an entry would be. What is proven is refused or carried out by the state of that moment. The last
 * outcomes stay, over continue-as-new too; those of senders whom nobody believes have places of their own, so that they push out no other.
 */

import {
  mayOrder,
  parseProof,
  type FleetOrderName,
  type OrderOutcome,
} from "../../protocol/word-proof.ts";
import type { SealFlaw } from "../../protocol/seal.ts";
import type { SettledOrder } from "../../protocol/fleet.ts";
import { inOrder } from "../../lib/chain.ts";
import { allWaiting } from "../../lib/fair-queue.ts";
import { SIGNED_ORDER_RULES } from "../../scheduling/ledger/ledger.ts";
import type { FleetEvent, OperatorOrder } from "./events.ts";
import { isTooDeep, keepUnproven } from "./inbox.ts";
import {
  refuseDescription,
  refuseHosts,
  refuseOutdated,
  refuseQueueOrder,
  refuseRules,
  type OrderRefusal,
} from "./orders.ts";
import { refuseGpus, refuseOutdatedGpus } from "./gpu-orders.ts";
import { refuseRepair } from "./repairs.ts";
import { update, type FleetState, type FleetStep } from "./state.ts";
import { orderOf } from "./update-orders.ts";
import type { CheckedWord, OrderWord } from "./words.ts";

/** An update to a fleet, as it came. */
export interface ArrivedOrder {
  readonly name: FleetOrderName;
  readonly argument: unknown;
  /** Of the update. */
  readonly id: string;
  readonly proof?: string;
  /** The bytes of the argument as they came; absent where they are not checked. */
  readonly value?: Uint8Array;
  readonly bytes: number;
  /** Of history, beside them. */
  readonly sideBytes?: number;
  readonly sender: string;
  readonly flaw?: SealFlaw;
}

/** Outcomes of each kind that are kept. */
const MOST_OUTCOMES = 16;
const MAX_MESSAGE = 500;
const UNPROVEN = "NOT_ALLOWED";

export const asksForSignedOrders = ({ words, ledger }: FleetState): boolean =>
  words !== undefined && ledger.applyVersion >= SIGNED_ORDER_RULES;

/** The event by which the machine hears of an update that was accepted. */
export function orderEvent(
  state: FleetState,
  { name, argument, id, ...arrived }: ArrivedOrder,
): FleetEvent {
  return asksForSignedOrders(state)
    ? { kind: "unproven-order", ...arrived, batch: argument, order: { name, id } }
    : { kind: "order", order: orderOf(name, argument) };
}

const TOO_DEEP: OrderRefusal = {
  code: "BAD_INPUT",
  message: "the order is nested deeper than anything that is meant",
};

/** Refuses, by the name of its update, an order that makes no sense for the fleet as it is. */
export function refuseOrder(
  state: FleetState,
  name: FleetOrderName,
  order: unknown,
): OrderRefusal | undefined {
  if (isTooDeep(state.ledger, order)) return TOO_DEEP;
  switch (name) {
    case "drain":
    case "undrain":
    case "fence":
      return refuseHosts(state, order) ?? refuseOutdated(state, order);
    case "drain-gpus":
    case "undrain-gpus":
      return refuseGpus(state, order) ?? refuseOutdatedGpus(state, order);
    case "configure":
      return refuseDescription(state, order);
    case "hold-queue":
    case "release-queue":
      return refuseQueueOrder(state, order);
    case "upgrade":
      return refuseRules(state, order);
    case "repair":
      return refuseRepair(state, order);
  }
}

/** Notes the outcome; `order` is to be carried out now. */
export function checkOrder(
  step: FleetStep,
  word: OrderWord,
  unproven: string | undefined,
): { readonly step: FleetStep; readonly order?: OperatorOrder } {
  const { name, id } = word.order;
  const role = parseProof(word.proof)?.role;
  const overstepped =
    role !== undefined && !mayOrder(role, word.batch)
      ? `role ${role} does not order this`
      : undefined;
  const reason = unproven ?? overstepped;
  if (reason !== undefined) {
    const message = `the order ${name} is not believed: ${reason}`;
    const inbox = keepUnproven(step.state.inbox, word, `${name}: ${reason}`);
    const refused = { id, isProven: false, code: UNPROVEN, message } as const;
    return { step: settle(update(step, { inbox }), refused) };
  }
  const refusal = refuseOrder(step.state, name, word.batch);
  if (refusal !== undefined) return { step: settle(step, { id, isProven: true, ...refusal }) };
  return { step: settle(step, { id, isProven: true }), order: orderOf(name, word.batch) };
}

/** The first outcome of an id stays. */
function settle(step: FleetStep, { message, ...outcome }: SettledOrder): FleetStep {
  const { settledOrders } = step.state;
  const isKnown = ({ id, isProven }: SettledOrder): boolean =>
    id === outcome.id && (isProven || !outcome.isProven);
  if (settledOrders.some(isKnown)) return step;
  const one = {
    ...outcome,
    ...(message !== undefined && { message: message.slice(0, MAX_MESSAGE) }),
  };
  const all = [...settledOrders, one];
  const oldest =
    all.filter(({ isProven }) => isProven === one.isProven).length > MOST_OUTCOMES
      ? all.find(({ isProven }) => isProven === one.isProven)
      : undefined;
  return update(step, { settledOrders: all.filter((each) => each !== oldest) });
}

/** That of a proven order before that of another one under the same id. */
export function orderOutcome(
  { settledOrders, words, deferred }: FleetState,
  id: string,
): OrderOutcome {
  const own = settledOrders.filter((each) => each.id === id);
  const settled = own.find(({ isProven }) => isProven) ?? own[0];
  if (settled === undefined) {
    const waiting =
      words === undefined ? [] : [...allWaiting(words.waiting), ...(words.question?.words ?? [])];
    const came = inOrder(deferred).flatMap((event) =>
      event.kind === "unproven-order" ? event : [],
    );
    const isPending = [...waiting, ...came].some(({ order }) => order?.id === id);
    return isPending ? { kind: "pending" } : { kind: "unknown" };
  }
  const { code, message } = settled;
  return code === undefined
    ? { kind: "done", answer: null }
    : { kind: "refused", code, message: message ?? "" };
}

/** Whether the judgement is one of an order. */
export const isAboutOrder = (
  checked: CheckedWord,
): checked is CheckedWord & { readonly word: OrderWord } => checked.word.order !== undefined;
