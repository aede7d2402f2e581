/**
 * @file What a decider that keeps the fleet's ledger is fed with, and how the chain of events goes on from run to run.
 *
 * Pure functions of the state; see `scheduling/ledger/event-chain.ts`. Cost: O(links).
 */

import type { Feed } from "../../protocol/control-contract.ts";
import type { CarriedChain, FleetInput } from "../../protocol/fleet.ts";
import {
  extendChain,
  figuresOf,
  hashAfter,
  NEW_CHAIN,
  type EventChain,
} from "../../scheduling/ledger/event-chain.ts";
import { BOUNDED_RULES } from "../../scheduling/ledger/ledger.ts";
import type { FleetState } from "./state.ts";

/** Absent where no decider can follow: it needs the whole ledger. */
export function feedOf({ name, ledger, followed }: FleetState): Feed | undefined {
  if (followed === undefined) return undefined;
  const { since, links, hash } = followed.chain;
  if (since === undefined) return undefined;
  const { applyVersion: rules } = ledger;
  return { fleet: name, run: followed.run, rules, since, links, hash, figures: figuresOf(ledger) };
}

/** The most characters of links that a run hands to the next one. */
const MAX_CARRIED_CHARACTERS = 16 * 1024;

/** From the rules of version 2 on. The chain of the last run goes on, so that a decider that kept its ledger answers at once. */
export function openChain(state: FleetState, input: FleetInput, run: string): FleetState {
  const { applyVersion: rules } = state.ledger;
  if (rules < BOUNDED_RULES) return state;
  const chain = extendChain(chainOf(input.chain, rules), { kind: "run", run, rules });
  return { ...state, followed: { run, chain } };
}

function chainOf(carried: CarriedChain | undefined, rules: number): EventChain {
  if (carried?.rules !== rules) return NEW_CHAIN;
  const { since, links } = carried;
  return {
    since,
    links,
    size: links.reduce((sum, { length }) => sum + length, 0),
    hash: links.reduce(hashAfter, since),
  };
}

export function carriedChain({ ledger, followed }: FleetState): CarriedChain | undefined {
  const { since, links, size } = followed?.chain ?? NEW_CHAIN;
  if (since === undefined || size > MAX_CARRIED_CHARACTERS) return undefined;
  return { rules: ledger.applyVersion, since, links };
}
