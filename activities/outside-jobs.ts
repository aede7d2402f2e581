/**
 * @file For a fleet that has lost its ledger: the jobs that its lobbies list need not be asked, however many they are; the lobbies report instead.
 *
 * A row may be out of date, so that its job waits inside after all; it is called in again, and asks then. Cost: the rows are read once.
 */

import { heartbeat, log } from "@temporalio/activity";
import type { Client } from "@temporalio/client";
import type { RecoverOrder } from "../protocol/control-contract.ts";
import type { LobbyStoreActivities } from "../protocol/lobby-contract.ts";
import { listedRuns } from "./listed-runs.ts";
import {
  countAgainSignal,
  LOBBY_WORKFLOW,
  lobbyRowsQuery,
  type LobbyRows,
} from "../protocol/messages.ts";

/** Of rows that are read at once. */
const READ_BYTES = 4 * 1024 * 1024;

/** Ids of the jobs. Asks the lobbies of a lost ledger to report; one that does not answer has its jobs asked. */
export async function jobsOutside(
  client: Client,
  store: Pick<LobbyStoreActivities, "loadRows">,
  { fleet, isLedgerLost, creditsFrom }: Omit<RecoverOrder, "clusters">,
): Promise<ReadonlySet<string>> {
  const outside = new Set<string>();
  const again = creditsFrom === undefined ? {} : { creditsFrom };
  const query = `WorkflowType = "${LOBBY_WORKFLOW}" AND ExecutionStatus = "Running"`;
  for await (const { workflowId, memo } of listedRuns(client, query)) {
    if ((await memo("fleet")) !== fleet) continue;
    try {
      const lobby = client.workflow.getHandle(workflowId);
      if (isLedgerLost) await lobby.signal(countAgainSignal, again);
      await addRows(outside, store, await lobby.query(lobbyRowsQuery));
    } catch (error) {
      log.warn("a lobby could not be asked for its jobs", { workflowId, error: String(error) });
    }
  }
  return outside;
}

async function addRows(
  outside: Set<string>,
  store: Pick<LobbyStoreActivities, "loadRows">,
  { jobs, runs }: LobbyRows,
): Promise<void> {
  for (const job of jobs) outside.add(job);
  for (const { directory, at, count } of runs) {
    for (let next = at; next < count;) {
      heartbeat();
      const loaded = await store.loadRows({
        runs: [{ directory, at: next }],
        maxBytes: READ_BYTES,
      });
      const rows = loaded.kind === "rows" ? (loaded.rows[0] ?? []) : [];
      // Lost rows: their jobs are asked.
      if (rows.length === 0) break;
      for (const [job] of rows) outside.add(job);
      next += rows.length;
    }
  }
}
