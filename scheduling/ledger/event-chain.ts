/**
 * @file The chain of events by which a decider that keeps a fleet's ledger follows the fleet: one link an event, and a hash after each.
 *
 * A link is a text. The hash after it depends on the hash before it and on the text, so two deciders with the same hash have folded the same
 * events into the same ledger. A chain keeps the links since the last hash that a decider is known to have reached, so that it can be fed
 * with them; when they are too many it keeps none, and the decider needs the whole ledger. Two links are not an event as it is: a plan is
 * named by its answer, because the decider that made it has it, and the beginning of a run changes no ledger, but makes the chains of two
 * runs differ (a reset run repeats the events of another).
 * Cost: O(event) a link. Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import { textHash } from "../../lib/text-hash.ts";
import type { Ledger, LedgerEvent } from "./ledger.ts";

export interface EventChain {
  /** The hash that a decider is known to have reached; absent when none is, or when it is too far behind. */
  readonly since?: string;
  /** The links since then, in order; none without `since`. */
  readonly links: readonly string[];
  /** Characters in the links. */
  readonly size: number;
  /** The hash after all links. */
  readonly hash: string;
}

/** A plan that a decider has answered, by the name of the answer. */
export interface PlanLink {
  readonly kind: "plan-of";
  readonly answer: string;
  readonly nowMs: number;
}

/** A run of the fleet begins, under these rules. */
export interface RunLink {
  readonly kind: "run";
  readonly run: string;
  readonly rules: number;
}

export type ChainLink = LedgerEvent | PlanLink | RunLink;

/** Figures of a ledger that are known at no cost: a decider with other ones has another ledger, whatever its hash. */
export type LedgerFigures = readonly number[];

/** Beyond either a decider is not fed any more: it gets the whole ledger, which is not much larger. */
export const MAX_LINKS = 500;
export const MAX_LINK_CHARACTERS = 256 * 1024;

export const NEW_CHAIN: EventChain = { links: [], size: 0, hash: "" };

export const hashAfter = (before: string, link: string): string => textHash(link, before);

export function extendChain(chain: EventChain, link: ChainLink): EventChain {
  const text = JSON.stringify(link);
  const hash = hashAfter(chain.hash, text);
  const size = chain.size + text.length;
  const { since, links } = chain;
  if (since === undefined || links.length >= MAX_LINKS || size > MAX_LINK_CHARACTERS)
    return { ...NEW_CHAIN, hash };
  return { since, links: [...links, text], size, hash };
}

/** A decider has reached the chain's hash. */
export const acknowledgeChain = ({ hash }: EventChain): EventChain => ({
  since: hash,
  links: [],
  size: 0,
  hash,
});

export const figuresOf = (ledger: Ledger): LedgerFigures => [
  ledger.nextToken,
  ledger.nextArrival,
  ledger.requests.size,
  ledger.leases.size,
  ledger.hosts.size,
  ledger.outbox.size,
];
