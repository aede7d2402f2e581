/**
 * @file Records the histories of a test's workflows for the replay tests.
 *
 * `ORBWEAVER_RECORD=DIR node_modules/.bin/vitest run --project server test/integration/job-life.test.ts` writes the history of every run of
 * that test's fleet into DIR, as `TYPE.WORKFLOW-ID.N.json`; copy the ones that show something new to `test/histories/TYPE.WHAT.json`.
 */

import type { Client } from "@temporalio/client";
import { historyToJSON } from "@temporalio/common/lib/proto-utils.js";
import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";

const FLEET = "OrbweaverFleet";
const MOST_LISTED = 1_000;
/** The list of workflows follows events by this at most. */
const VISIBLE_AFTER_MS = 1_500;

export async function recordHistories(client: Client, fleet: string): Promise<void> {
  const folder = process.env["ORBWEAVER_RECORD"];
  if (folder === undefined) return;
  mkdirSync(folder, { recursive: true });
  await new Promise((resolve) => setTimeout(resolve, VISIBLE_AFTER_MS));
  // The raw list: memos of other tests may be encrypted with keys that this client lacks.
  const { executions } = await client.workflowService.listWorkflowExecutions({
    namespace: client.options.namespace,
    pageSize: MOST_LISTED,
  });
  let count = 0;
  for (const { type, execution, searchAttributes } of executions) {
    const { workflowId, runId } = execution ?? {};
    const data = searchAttributes?.indexedFields?.[FLEET]?.data ?? [];
    const isOfFleet = Buffer.from(data).toString() === JSON.stringify(fleet);
    if (!workflowId || !runId || (!isOfFleet && !workflowId.includes(fleet))) continue;
    const history = await client.workflow.getHandle(workflowId, runId).fetchHistory();
    // The server writes who started what; whose machine it was is nobody's business. Senders stay apart: a fleet reads them in turns.
    const names = new Map<string, string>();
    const text = historyToJSON(history)
      .replace(/"identity": ?"([^"]*)"/g, (_, name: string) => {
        if (!names.has(name)) names.set(name, `worker-${String(names.size + 1)}`);
        return `"identity":"${names.get(name) ?? ""}"`;
      })
      .replace(/"stackTrace": ?"(?:[^"\\]|\\.)*"/g, '"stackTrace":""')
      .replace(/"\d+@[^"]*-[0-9a-f]{32}"/g, '"sticky"');
    count += 1;
    const file = `${type?.name ?? "workflow"}.${workflowId.replaceAll(/[^\w-]/g, "_")}.${String(count)}.json`;
    writeFileSync(path.join(folder, file), `${JSON.stringify(JSON.parse(text))}\n`);
  }
}
