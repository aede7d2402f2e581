/** @file What somebody says to a fleet: it waits for its proof, or is kept or counted at once. */

import { isBounded } from "../../scheduling/ledger/ledger.ts";
import type { Tick } from "../machine.ts";
import { COST, mustShed, spend, spendArrival } from "./continue.ts";
import type { Arrival, FleetEvent } from "./events.ts";
import {
  isRead,
  isTooDeep,
  keepAll,
  keepEntries,
  keepTooDeep,
  keepUnknownSignal,
  laneOf,
  mostWordBytes,
  type Brought,
} from "./inbox.ts";
import { update, type FleetStep } from "./state.ts";
import { withWord } from "./words.ts";

export const isArrival = (event: FleetEvent | Tick): event is Arrival =>
  event.kind === "inbox" || event.kind === "unknown-signal" || event.kind === "unproven-order";

export const take = (begun: FleetStep, event: Arrival): FleetStep =>
  event.kind === "unproven-order" ? appendOrder(begun, event) : append(begun, event);

/** Costs the same however much has come before. */
function append(
  begun: FleetStep,
  event: Extract<FleetEvent, { readonly kind: "inbox" | "unknown-signal" }>,
): FleetStep {
  const { inbox, ledger, words } = begun.state;
  if (isBounded(ledger)) {
    const spent = spendArrival(begun, 1, event);
    if (event.kind === "unknown-signal")
      return update(spent, { inbox: keepUnknownSignal(inbox, event) });
    if (isTooDeep(ledger, event.batch)) return update(spent, { inbox: keepTooDeep(inbox, event) });
    const brought = { ...event, lane: laneOf(ledger, event) };
    if (words !== undefined && isRead(ledger, event.bytes ?? 0))
      return update(spent, { words: withWord(words, brought) });
    return hear(spent, brought);
  }
  if (event.kind === "unknown-signal") return begun;
  return update(spend(begun, COST.signal, event.batch), { inbox: keepAll(inbox, event.batch) });
}

/** Of a fleet that asks for proof of orders. */
function appendOrder(
  begun: FleetStep,
  { kind: _kind, ...word }: Extract<FleetEvent, { readonly kind: "unproven-order" }>,
): FleetStep {
  const { words, ledger } = begun.state;
  if (words === undefined) return begun;
  const spent = spendArrival(begun, COST.order, word);
  return update(spent, { words: withWord(words, { ...word, lane: laneOf(ledger, word) }) });
}

export function hear(spent: FleetStep, brought: Brought): FleetStep {
  const isShed = mustShed(spent.state);
  const mostBytes = mostWordBytes(spent.state.ledger);
  return update(spent, {
    inbox: keepEntries(spent.state.inbox, { ...brought, isShed, mostBytes }),
    ...(isShed && { isOverrun: true }),
  });
}
