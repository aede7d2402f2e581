/** @file Has a fleet look into what is doubted, and waits for the note of what it has freed. */

import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { Client } from "@temporalio/client";
import { OrbweaverError } from "../domain/values/failure.ts";
import { fleetWorkflowId, repairUpdate } from "../protocol/messages.ts";
import type { RepairChoice } from "../protocol/repair.ts";
import type { Ledger, RepairNote } from "../scheduling/ledger/ledger.ts";
import { pauseMs } from "./ask-again.ts";
import type { Doubt } from "./doubts.ts";
import { ordered } from "./orders.ts";

/** Of one repair. */
const MAX_THINGS = 200;
/** Agents that do not answer are given up on after half a minute, a slow stop after two. */
const PATIENCE_MS = 300_000;

export interface RepairCall {
  readonly client: Client;
  readonly fleet: string;
  /** The operator, for the note. */
  readonly by: string;
  /** The fleet's ledger now. */
  readonly ledger: () => Promise<Ledger>;
}

/** Of more than 200 doubts the first are looked into; call again for the others. */
export async function repairFleet(
  { client, fleet, by, ledger }: RepairCall,
  doubts: readonly Doubt[],
): Promise<RepairNote> {
  const choice = choiceOf(doubts.slice(0, MAX_THINGS), by);
  const call = { client, workflowId: fleetWorkflowId(fleet), subject: `fleet ${fleet}` };
  await ordered(call, repairUpdate, choice);
  const endAtMs = Date.now() + PATIENCE_MS;
  for (let tries = 0; Date.now() < endAtMs; tries += 1) {
    const note = (await ledger()).repairs?.find(({ key }) => key === choice.key);
    if (note !== undefined) return note;
    await sleep(pauseMs(tries));
  }
  throw new OrbweaverError(
    "NOT_ALLOWED",
    `fleet ${fleet} has not said within ${PATIENCE_MS / 60_000} min what its repair has freed; see \`orbweaver fleet repair\``,
  );
}

function choiceOf(doubts: readonly Doubt[], by: string): RepairChoice {
  return {
    key: randomUUID(),
    by: by.slice(0, 100),
    leases: doubts.flatMap((doubt) => (doubt.kind === "lease" ? [doubt.lease] : [])),
    requests: doubts.flatMap((doubt) => (doubt.kind === "request" ? [doubt.jobId] : [])),
    reservations: doubts.flatMap((doubt) => (doubt.kind === "reservation" ? [doubt.jobId] : [])),
  };
}
