/**
 * @file Estimates when some of a fleet's waiting jobs will start, in a thread of the lowest priority.
 *
 * The simulation takes seconds of a processor while the fleet's worker must answer in milliseconds. Each estimate (one in half
 * an hour) has a thread of its own, which ends with the activity.
 */

import { Context } from "@temporalio/activity";
import type { Client } from "@temporalio/client";
import { Worker } from "node:worker_threads";
import type { StartEstimate } from "../domain/lease/start-estimate.ts";
import type { PackedLedger } from "../domain/lease/packed-ledger.ts";
import { fleetWorkflowId, ledgerQuery } from "../protocol/messages.ts";
import type { StartEstimates, EstimateOrder } from "../protocol/control-contract.ts";
import { ownThreadFile } from "./thread-file.ts";

const BEAT_MS = 5_000;

export async function estimateFleetStarts(
  client: Client,
  { fleet }: EstimateOrder,
): Promise<StartEstimates> {
  const snapshot = await client.workflow.getHandle(fleetWorkflowId(fleet)).query(ledgerQuery);
  const askedAtMs = Date.now();
  const task = Context.current();
  const beats = setInterval(() => task.heartbeat(), BEAT_MS);
  try {
    const question = { snapshot, nowMs: askedAtMs };
    return { askedAtMs, estimates: await playApart(question, task.cancelled) };
  } finally {
    clearInterval(beats);
  }
}

export interface EstimateQuestion {
  readonly snapshot: PackedLedger;
  readonly nowMs: number;
}

/** The answer of a thread that has ended when this returns or throws; `cancelled` never resolves. */
export async function playApart(
  question: EstimateQuestion,
  cancelled: Promise<never>,
  threadFile = ownThreadFile("start-estimator-thread"),
): Promise<readonly StartEstimate[]> {
  const thread = new Worker(threadFile, { workerData: question });
  try {
    return await Promise.race([answerOf(thread), cancelled]);
  } finally {
    await thread.terminate();
  }
}

const answerOf = async (thread: Worker): Promise<readonly StartEstimate[]> =>
  new Promise((resolve, reject) => {
    thread.once("message", resolve);
    thread.once("error", reject);
    thread.once("exit", (code) =>
      reject(new Error(`the start estimator's thread ended with exit code ${code}`)),
    );
  });
