/**
 * @file The brain that a simulation drives: the same `apply` and `decide` as the live fleet's, kept open between events.
 *
 * A simulation takes it as a port, so that a bench may hold a stopwatch to it: this room has no clock.
 */

import type { FleetShape } from "../domain/fleet.ts";
import { apply, emptyLedger } from "../scheduling/apply.ts";
import type { Policies } from "../scheduling/cycle.ts";
import { DECIDE_LIMITS } from "../scheduling/decide.ts";
import type { Ledger } from "../scheduling/ledger.ts";
import { openSession, type Session } from "../scheduling/session.ts";

export type Brain = Session;
export type OpenBrain = (ledger: Ledger) => Brain;

/** Reasons are for people who wait; nobody reads them here, and they change no decision. */
const LIMITS = { ...DECIDE_LIMITS, maxReasons: 0, freshReasons: 0 };

export const brainWith =
  (policies: Policies): OpenBrain =>
  (ledger) =>
    openSession(ledger, { policies, limits: LIMITS });

/** The same brain, some of whose work is done otherwise; what it knows stays its own. */
export const brainBut = (
  brain: Brain,
  changes: Partial<Pick<Brain, "decide" | "apply">>,
): Brain => ({
  leased: brain.leased,
  get ledger() {
    return brain.ledger;
  },
  decide: brain.decide,
  apply: brain.apply,
  ...changes,
});

/** An empty fleet whose hosts all answer. */
export function readyLedger(shape: FleetShape): Ledger {
  const hosts = shape.clusters.flatMap((cluster) => cluster.hosts.map(({ id }) => id));
  const agent = { epoch: "1", runQueue: "run", orderQueue: "order", address: "simulated" };
  const hello = { kind: "agent-hello", hosts, agent, running: [], highestToken: 0 };
  return apply(emptyLedger(shape), { kind: "inbox", entries: [hello], nowMs: 0 }).ledger;
}
