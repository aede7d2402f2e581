/**
 * @file The rules with which a new fleet begins: those committed in its namespace; the newest, which are committed with it, if it is the
 * first there; else the oldest, like the fleets beside it, so that the former release can still take over from this one.
 */

import type { Client } from "@temporalio/client";
import { FLEET_WORKFLOW } from "../../protocol/messages.ts";
import { NEWEST_RULES, OLDEST_RULES } from "../../scheduling/ledger/ledger.ts";
import { commitRouting, committedRules, hasDeployments, refuseOlder } from "./routing.ts";

export async function rulesOfNewFleet(client: Client): Promise<number> {
  const committed = await committedRules(client);
  refuseOlder({ committed }, NEWEST_RULES);
  if (committed > OLDEST_RULES) return committed;
  const { count } = await client.workflow.count(
    `WorkflowType = "${FLEET_WORKFLOW}" AND ExecutionStatus = "Running"`,
  );
  if (count > 0) return OLDEST_RULES;
  // Servers before 1.28 cannot keep older workers away.
  if (await hasDeployments(client)) await commitRouting(client, NEWEST_RULES);
  return NEWEST_RULES;
}
