/**
 * @file Replays what a storm has recorded on the code that made it: all runs of fleets, presences and sweeps, and a sample of jobs.
 *
 * A history that does not replay is written beside the logs, so that it can become a recorded one.
 */

import type { Client } from "@temporalio/client";
import type { History } from "@temporalio/common/lib/proto-utils.js";
import { historyToJSON } from "@temporalio/common/lib/proto-utils.js";
import { DefaultLogger, Runtime, Worker } from "@temporalio/worker";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { sampled } from "../../lib/random.ts";
import { packageRoot } from "../../workers/server/package-root.ts";
import { JOB_WORKFLOW } from "../../protocol/messages.ts";
import type { Draw } from "../statistics.ts";
import { insist } from "./insistence.ts";

const MESSAGE_CHARACTERS = 600;
const READ_WITHIN_MS = 25_000;

export interface Replays {
  readonly count: number;
  readonly failed: readonly string[];
  /** Histories that the server itself cannot hand out any more; oversized signals can do that to it. */
  readonly unreadable: readonly string[];
}

export async function replayAll(
  client: Client,
  { folder, jobs, draw }: { readonly folder: string; readonly jobs: number; readonly draw: Draw },
): Promise<Replays> {
  const all: { readonly workflowId: string; readonly runId: string; readonly type: string }[] = [];
  for await (const { workflowId, runId, type } of client.workflow.list()) {
    all.push({ workflowId, runId, type });
  }
  const taken = sampled(
    all.filter(({ type }) => type === JOB_WORKFLOW),
    jobs,
    draw,
  );
  const chosen = [...all.filter(({ type }) => type !== JOB_WORKFLOW), ...taken];
  const unreadable: string[] = [];
  async function* histories() {
    for (const { workflowId, runId } of chosen) {
      const handle = client.workflow.getHandle(workflowId, runId);
      const history = await insist(client, () => handle.fetchHistory(), READ_WITHIN_MS).catch(
        () => void unreadable.push(`${workflowId} ${runId}`),
      );
      if (history !== undefined) yield { workflowId, history: underItsOwnRun(history, runId) };
    }
  }
  beQuiet();
  const failed: string[] = [];
  let count = 0;
  const results = Worker.runReplayHistories(
    {
      workflowBundle: { codePath: join(packageRoot(), "dist", "workflow-bundle.js") },
      dataConverter: { payloadCodecs: client.options.loadedDataConverter.payloadCodecs },
    },
    histories(),
  );
  for await (const { workflowId, runId, error } of results) {
    count += 1;
    if (error === undefined) continue;
    failed.push(`${workflowId} ${runId}: ${error.message.slice(0, MESSAGE_CHARACTERS)}`);
    const history = await client.workflow.getHandle(workflowId, runId).fetchHistory();
    mkdirSync(join(folder, "histories"), { recursive: true });
    const name = `${encodeURIComponent(workflowId)}-${runId}.json`;
    writeFileSync(join(folder, "histories", name), historyToJSON(history));
  }
  return { count, failed, unreadable };
}

/**
 * A replay takes the run id from `originalExecutionRunId`, which of a reset run is that of the run before. A job must know the
 * grants of its former run from its own, so it would not do the same again.
 */
function underItsOwnRun(history: History, runId: string): History {
  const started = history.events?.[0]?.workflowExecutionStartedEventAttributes;
  if (started) started.originalExecutionRunId = runId;
  return history;
}

function beQuiet(): void {
  try {
    Runtime.install({ logger: new DefaultLogger("ERROR") });
  } catch {
    // The process has a runtime already, with the logger that it wanted.
  }
}
