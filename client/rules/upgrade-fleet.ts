/**
 * @file Commits newer rules to a fleet, or says why that is not possible yet.
 *
 * Deploying and committing are two steps. New workers follow the rules that a fleet's ledger names; the commit makes the fleet continue as
 * new with the next version. Order of the steps: no older process may be alive; then the routing keeps older workers away; then the
 * fleet is told. An older worker that starts after the check gets no task, because the routing is set before the fleet hears of
 * anything; one that got a task just before writes what rules of the former version are, which every release reads.
 * When a later step fails, the earlier ones stay, and the same command goes on from there.
 */

import { WorkflowNotFoundError, type Client } from "@temporalio/client";
import { setTimeout as sleep } from "node:timers/promises";
import { OrbweaverError } from "../../domain/values/failure.ts";
import {
  FLEET_TASK_QUEUE,
  fleetWorkflowId,
  JOB_TASK_QUEUE,
  ledgerQuery,
  presenceWorkflowId,
  reportAgainSignal,
  upgradeUpdate,
} from "../../protocol/messages.ts";
import { unpackLedger } from "../../scheduling/ledger/codec.ts";
import { NEWEST_RULES, type Ledger } from "../../scheduling/ledger/ledger.ts";
import { ordered } from "../orders.ts";
import { queried } from "../waking.ts";
import {
  livingProcesses,
  POLL_OPEN_MS,
  type FleetProcess,
  type ProcessSearch,
} from "./living-processes.ts";
import { commitRouting, committedRules, hasDeployments, readRouting } from "./routing.ts";

export interface FleetRules {
  readonly fleet: string;
  /** The rules that the fleet follows. */
  readonly rules: number;
  /** The newest that this release knows. */
  readonly newest: number;
  /** Processes that are alive and do not know the newest rules; they prevent the upgrade. */
  readonly older: readonly FleetProcess[];
}

export interface Upgraded {
  readonly fleet: string;
  readonly from: number;
  readonly rules: number;
}

/** Which rules the fleet follows, and what prevents newer ones. */
export async function fleetRules(
  client: Client,
  { fleet, ledger, ...search }: { readonly fleet: string; readonly ledger: Ledger } & ProcessSearch,
): Promise<FleetRules> {
  const rules = ledger.applyVersion;
  const living = rules < NEWEST_RULES ? await livingProcesses(client, ledger, search) : [];
  return { fleet, rules, newest: NEWEST_RULES, older: living.filter(isOlder) };
}

const isOlder = ({ rules }: FleetProcess): boolean => rules < NEWEST_RULES;

/** Idempotent. Throws OLDER_PROCESSES_ALIVE while a process that does not know the rules is alive. */
export async function upgradeFleet(
  client: Client,
  fleet: string,
  search: ProcessSearch,
): Promise<Upgraded> {
  const rules = NEWEST_RULES;
  const ledger = await readLedger(client, fleet);
  const from = ledger.applyVersion;
  if (from >= rules && (await committedRules(client)) >= rules) return { fleet, from, rules: from };
  const living = await livingProcesses(client, ledger, search);
  const older = living.filter(isOlder);
  if (older.length > 0) throw olderAlive(fleet, older, search.nowMs);
  await checkServed(client, living, rules);
  if (!(await hasDeployments(client))) throw noDeployments(fleet);
  await commitRouting(client, rules);
  if (from >= rules) return { fleet, from, rules: from };
  await tellFleet(client, fleet, rules);
  const upgraded = await untilFollows(client, fleet, rules);
  await tellPresences(client, upgraded, fleet);
  return { fleet, from, rules: upgraded.applyVersion };
}

/** Whether words to them need proof, they ask their fleet with their terms. */
async function tellPresences(client: Client, { shape }: Ledger, fleet: string): Promise<void> {
  for (const { id } of shape.clusters) {
    const workflowId = presenceWorkflowId(fleet, id);
    try {
      await client.workflow.getHandle(workflowId).signal(reportAgainSignal);
    } catch (error) {
      if (!(error instanceof WorkflowNotFoundError)) throw error;
    }
  }
}

/** Workers look at the routing every few seconds, and serve the committed rules from then on. */
const COMMITTED_WITHIN_MS = 60_000;
const LOOK_EVERY_MS = 200;

/**
 * Repeats an order that was lost: a signal that arrives with the end of the run fails the task in which the order was accepted, and the
 * server then gives the order up.
 */
async function tellFleet(client: Client, fleet: string, rules: number): Promise<void> {
  const endAtMs = Date.now() + COMMITTED_WITHIN_MS;
  const call = {
    client,
    workflowId: fleetWorkflowId(fleet),
    subject: `fleet ${fleet}`,
    withinMs: COMMITTED_WITHIN_MS,
  };
  for (;;) {
    try {
      await ordered(call, upgradeUpdate, rules);
      return;
    } catch (error) {
      const isLost = error instanceof OrbweaverError && error.code === "NO_CONNECTION";
      if (!isLost || Date.now() > endAtMs) throw error;
    }
    await sleep(LOOK_EVERY_MS);
  }
}

/** The run continues as new once its background work has ended. */
async function untilFollows(client: Client, fleet: string, rules: number): Promise<Ledger> {
  const endAtMs = Date.now() + COMMITTED_WITHIN_MS;
  for (;;) {
    const ledger = await readLedger(client, fleet);
    if (ledger.applyVersion >= rules) return ledger;
    if (Date.now() > endAtMs) {
      throw new OrbweaverError(
        "NOT_ALLOWED",
        `fleet ${fleet} has accepted rules ${rules} and follows them once its present run ends: a recovery or an audit is under way. \`orbweaver fleet show\` says when.`,
      );
    }
    await sleep(LOOK_EVERY_MS);
  }
}

async function readLedger(client: Client, fleet: string): Promise<Ledger> {
  const workflow = client.workflow.getHandle(fleetWorkflowId(fleet));
  const query = () => workflow.query(ledgerQuery);
  return unpackLedger(
    await queried(client, `fleet ${fleet}`, { taskQueue: FLEET_TASK_QUEUE, query }),
  );
}

/** The commit keeps older workers away, so a newer one must be there for each of the two queues without which nothing moves. */
async function checkServed(
  client: Client,
  living: readonly FleetProcess[],
  rules: number,
): Promise<void> {
  for (const taskQueue of [FLEET_TASK_QUEUE, JOB_TASK_QUEUE]) {
    const isPolled = living.some((each) => each.taskQueue === taskQueue && each.rules >= rules);
    if (isPolled || (await readRouting(client, taskQueue)).currentRules >= rules) continue;
    const role = taskQueue === FLEET_TASK_QUEUE ? "fleet" : "jobs";
    throw new OrbweaverError(
      "NOT_ALLOWED",
      `no worker that knows rules ${rules} serves ${taskQueue}. Start one of this release (\`orbweaver up\`, or \`orbweaver worker --role ${role}\`), then upgrade.`,
    );
  }
}

const noDeployments = (fleet: string): OrbweaverError =>
  new OrbweaverError(
    "NOT_ALLOWED",
    `fleet ${fleet} keeps its rules: this Temporal server has no worker deployments, so nothing would keep older workers away. Use Temporal 1.28 or later.`,
  );

const MAX_NAMED = 8;

function olderAlive(fleet: string, older: readonly FleetProcess[], nowMs: number): OrbweaverError {
  const named = older
    .slice(0, MAX_NAMED)
    .map((each) => processText(each, nowMs))
    .join("; ");
  const more = older.length > MAX_NAMED ? `; and ${older.length - MAX_NAMED} more` : "";
  return new OrbweaverError(
    "OLDER_PROCESSES_ALIVE",
    `fleet ${fleet} keeps its rules: ${older.length === 1 ? "a worker or agent of an older release is alive" : `${older.length} workers and agents of an older release are alive`}: ${named}${more}. Replace them by this release, then upgrade. One that was killed on another machine counts as alive for ${POLL_OPEN_MS / 1_000} s after its last poll: \`orbweaver fleet upgrade --wait\`.`,
    { details: older },
  );
}

/** `4711@gpu-7 on order.prod.eu-1.… (polled 12 s ago)` */
export const processText = (
  { identity, taskQueue, lastPollMs }: FleetProcess,
  nowMs: number,
): string =>
  `${identity} on ${taskQueue} (polled ${Math.max(0, Math.round((nowMs - lastPollMs) / 1_000))} s ago)`;
