/** @file What signals and orders bring, as it comes: what needs proof waits for it, junk is counted, the rest goes to the inbox. */

import { isBounded } from "../../scheduling/ledger/ledger.ts";
import { COST, mustShed, spend, spendArrival } from "./continue.ts";
import type { FleetEvent } from "./events.ts";
import {
  isTooDeep,
  keepAll,
  keepEntries,
  keepTooDeep,
  keepUnknownSignal,
  keepUnproven,
  laneOf,
  mayBeRead,
  type Brought,
} from "./inbox.ts";
import { update, type FleetState, type FleetStep } from "./state.ts";
import {
  isJunkUnread,
  isLarge,
  needsProof,
  withLargeRefused,
  withWord,
  type Word,
} from "./words.ts";

/** Costs the same however much has come before. */
export function append(
  begun: FleetStep,
  event: Extract<FleetEvent, { readonly kind: "inbox" | "unknown-signal" }>,
): FleetStep {
  const { inbox, ledger, words } = begun.state;
  if (isBounded(ledger)) {
    const spent = spendArrival(begun, 1, event);
    if (event.kind === "unknown-signal")
      return update(spent, { inbox: keepUnknownSignal(inbox, event) });
    if (isTooDeep(ledger, event.batch))
      return update(asLargeJunk(spent, event), { inbox: keepTooDeep(inbox, event) });
    const brought = { ...event, lane: laneOf(ledger, event) };
    if (words === undefined) return hear(spent, brought);
    if (!needsProof(event)) return hear(asLargeJunk(spent, event), brought);
    if (isJunkUnread(words, ledger, event))
      return update(asLargeJunk(spent, event), {
        inbox: keepUnproven(inbox, { ...brought, batch: undefined }, LEFT_UNREAD),
      });
    return update(spent, { words: withWord(words, brought) });
  }
  if (event.kind === "unknown-signal") return begun;
  return update(spend(begun, COST.signal, event.batch), { inbox: keepAll(inbox, event.batch) });
}

const asLargeJunk = (spent: FleetStep, word: Brought): FleetStep =>
  spent.state.words === undefined || !isLarge(word)
    ? spent
    : update(spent, { words: withLargeRefused(spent.state.words) });

const LEFT_UNREAD = "it is large, and nobody believes its like";

/** Whether somebody looks at what a signal has brought. */
export const isReadOnArrival = (
  { words, ledger }: FleetState,
  arrived: Pick<Word, "bytes" | "proof">,
): boolean =>
  !isBounded(ledger) ||
  (mayBeRead(arrived.bytes ?? 0) && (words === undefined || !isJunkUnread(words, ledger, arrived)));

/** Of a fleet that asks for proof of orders. */
export function appendOrder(
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
  return update(spent, {
    inbox: keepEntries(spent.state.inbox, { ...brought, isShed }),
    ...(isShed && { isOverrun: true }),
  });
}
