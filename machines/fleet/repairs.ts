/**
 * @file An operator's repair: which wishes a fleet refuses, whom it asks, and what it folds from the answers.
 *
 * One repair at a time. An activity asks the jobs and the agents; without its report nothing is freed, and the note says so.
 */

import { jobId as jobIdOf, type JobId, type LeaseId } from "../../domain/values/ids.ts";
import type { Lease } from "../../domain/lease/lease.ts";
import type { RepairOrder, RepairReport, RepairChoice } from "../../protocol/repair.ts";
import { isBounded, isUnheard, type Ledger } from "../../scheduling/ledger/ledger.ts";
import { COST, spend } from "./continue.ts";
import type { OrderRefusal } from "./orders.ts";
import { fold, issue, update, type FleetState, type FleetStep } from "./state.ts";

const MAX_THINGS = 200;
const MAX_ID = 1_000;
const MAX_NAME = 100;

/** Refuses a choice that makes no sense, or comes while another is looked into. */
export function refuseRepair(
  { name, ledger, repair }: Pick<FleetState, "name" | "ledger" | "repair">,
  choice: unknown,
): OrderRefusal | undefined {
  if (!isBounded(ledger)) {
    const message = `fleet ${name} follows version ${ledger.applyVersion} of the rules, which know of no repair; run \`orbweaver fleet upgrade\` first`;
    return { code: "NOT_ALLOWED", message };
  }
  if (!isChoice(choice))
    return { code: "BAD_INPUT", message: `a repair names 1 to ${MAX_THINGS} things of the ledger` };
  if (repair === undefined) return undefined;
  const message = `a repair by ${repair.by} is under way; wait until it is over`;
  return { code: "NOT_ALLOWED", message };
}

function isChoice(choice: unknown): choice is RepairChoice {
  if (typeof choice !== "object" || choice === null) return false;
  const { key, by, leases, requests, reservations } = choice as Partial<
    Record<keyof RepairChoice, unknown>
  >;
  const lists = [leases, requests, reservations];
  const isNamed = [key, by].every((text) => typeof text === "string" && text.length <= MAX_NAME);
  if (!isNamed || !lists.every((list) => Array.isArray(list) && list.every(isId))) return false;
  const count = lists.flat().length;
  return count > 0 && count <= MAX_THINGS;
}

const isId = (value: unknown): boolean =>
  typeof value === "string" && /^\S+$/.test(value) && value.length <= MAX_ID;

/** Of two that came during one cycle the first is looked into. */
export function startRepair(step: FleetStep, choice: RepairChoice): FleetStep {
  const { name, ledger, nextId, repair } = step.state;
  if (repair !== undefined) return step;
  const order = orderOf(name, ledger, choice);
  const { key, by, leases, requests, reservations } = choice;
  const kept = { id: nextId, key, by, leases, requests, reservations };
  const started = update(step, { repair: kept, isTurnDue: true });
  return issue(spend(started, COST.background, order), (id) => ({ kind: "repair", id, order }));
}

/** The report of an activity that gave up. */
export const NOTHING_DENIED: RepairReport = { denied: [], closed: [] };

/** Reports of unknown repairs are ignored. */
export function endRepair(
  step: FleetStep,
  { id, report }: { readonly id: number; readonly report: RepairReport },
  nowMs: number,
): FleetStep {
  const { repair } = step.state;
  if (repair?.id !== id) return step;
  const { id: _id, ...choice } = repair;
  const folded = fold(step, { kind: "repaired", ...choice, ...report, nowMs });
  return update(folded, { repair: undefined, isTurnDue: true });
}

/**
 * What the ledger no longer holds is not asked about, and no lease whose grant is on its way: its job would deny it, and might have the grant by
 * the time the answer is here.
 */
function orderOf(fleet: string, ledger: Ledger, choice: RepairChoice): RepairOrder {
  return {
    fleet,
    leases: choice.leases.flatMap((id: LeaseId) => {
      const lease = ledger.leases.get(id);
      if (lease === undefined || isUnheard(ledger, id)) return [];
      const { jobId, runId, token } = lease;
      return [{ lease: id, jobId, runId, token, hosts: openHosts(lease) }];
    }),
    requests: choice.requests.flatMap((job: JobId) => {
      const request = ledger.requests.get(jobIdOf(job));
      return request === undefined ? [] : [{ jobId: request.jobId, runId: request.runId }];
    }),
  };
}

/** Hosts that have yet to confirm that nothing runs there. */
const openHosts = ({
  gpus,
  vacatingHosts,
  vacatedHosts = [],
}: Lease): Lease["vacatingHosts"] & {} =>
  vacatingHosts ?? gpus.map(({ host }) => host).filter((host) => !vacatedHosts.includes(host));
