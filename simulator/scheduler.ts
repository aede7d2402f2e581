/**
 * @file The decider that the engine drives: the same `apply` and `decide` as the live fleet's, with its ledger kept between events.
 *
 * A simulation takes it as a port, so that a bench can time it: this room has no clock.
 */

import type { FleetShape } from "../domain/fleet/fleet.ts";
import { apply, emptyLedger } from "../scheduling/ledger/apply/apply.ts";
import type { Policies } from "../scheduling/cycle/cycle.ts";
import { SILENT_LIMITS } from "../scheduling/cycle/decide.ts";
import type { Ledger } from "../scheduling/ledger/ledger.ts";
import { openSession, type Session } from "../scheduling/cycle/live-scheduler.ts";

export type Scheduler = Session;
export type OpenScheduler = (ledger: Ledger) => Scheduler;

export const schedulerWith =
  (policies: Policies): OpenScheduler =>
  (ledger) =>
    openSession(ledger, { policies, limits: SILENT_LIMITS });

/** The same scheduler with some calls replaced; its ledger stays its own. */
export const schedulerBut = (
  scheduler: Scheduler,
  changes: Partial<Pick<Scheduler, "decide" | "apply">>,
): Scheduler => ({
  leased: scheduler.leased,
  get ledger() {
    return scheduler.ledger;
  },
  decide: scheduler.decide,
  apply: scheduler.apply,
  ...changes,
});

/** An empty fleet whose hosts all answer. */
export function readyLedger(shape: FleetShape): Ledger {
  const hosts = shape.clusters.flatMap((cluster) => cluster.hosts.map(({ id }) => id));
  const agent = { epoch: "1", runQueue: "run", orderQueue: "order", address: "simulated" };
  const hello = { kind: "agent-registered", hosts, agent, running: [], highestToken: 0 };
  return apply(emptyLedger(shape), { kind: "inbox", entries: [hello], nowMs: 0 }).ledger;
}
