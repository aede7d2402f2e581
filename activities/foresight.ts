/**
 * @file Estimates when some of a fleet's waiting jobs will start, in a thread of its own at the lowest priority.
 *
 * Playing the queue takes seconds of a processor; the fleet's worker must answer in milliseconds meanwhile. One thread an
 * estimate: there is one in half an hour. It is given up with the activity.
 */

import { Context } from "@temporalio/activity";
import type { Client } from "@temporalio/client";
import { Worker } from "node:worker_threads";
import type { StartEstimate } from "../scheduling/foreseen.ts";
import type { PackedLedger } from "../scheduling/ledger-codec.ts";
import { fleetWorkflowId, ledgerQuery } from "../workflows/messages.ts";
import type { Foresight, ForesightOrder } from "./control-contract.ts";
import { ownThreadFile } from "./thread-file.ts";

const BEAT_MS = 5_000;

export async function foreseeStarts(client: Client, { fleet }: ForesightOrder): Promise<Foresight> {
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

export interface ForesightQuestion {
  readonly snapshot: PackedLedger;
  readonly nowMs: number;
}

/** The answer of a thread that is gone when this returns or throws; `cancelled` never resolves. */
export async function playApart(
  question: ForesightQuestion,
  cancelled: Promise<never>,
  threadFile = ownThreadFile("foresight-thread"),
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
      reject(new Error(`the thread that plays the queue ended with exit code ${code}`)),
    );
  });
