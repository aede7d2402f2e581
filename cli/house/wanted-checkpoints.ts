/**
 * @file Of which ended jobs others of a fleet are to go on (`run.checkpoint.from`), by their files: jobs that run or wait now, and the jobs of schedules. Wakes no
 * worker; a call for each of them.
 */

import type { Client } from "@temporalio/client";
import { firstInput } from "../../client/first-input.ts";
import { FLEET_KEY } from "../../client/search-keys.ts";
import { jobId } from "../../domain/values/ids.ts";
import { cronScheduleId, type CronInput } from "../../protocol/cron.ts";
import { JOB_WORKFLOW } from "../../protocol/messages.ts";

const ASKED_AT_ONCE = 16;

/** Jobs, by id. Throws where a file cannot be read: it may name any. */
export async function wantedCheckpoints(
  client: Client,
  fleet: string,
): Promise<ReadonlySet<string>> {
  const open: string[] = [];
  const query = `WorkflowType = "${JOB_WORKFLOW}" AND ExecutionStatus = "Running" AND ${FLEET_KEY.name} = "${fleet}"`;
  for await (const { workflowId } of client.workflow.list({ query })) open.push(workflowId);
  const wanted = new Set<string>();
  for (let at = 0; at < open.length; at += ASKED_AT_ONCE)
    await Promise.all(
      open.slice(at, at + ASKED_AT_ONCE).map(async (job) => {
        const [file] = (await firstInput(client, jobId(job))) ?? [];
        const from = fromIn(file);
        if (from !== undefined) wanted.add(from);
      }),
    );
  const prefix = cronScheduleId(fleet, "");
  for await (const { scheduleId, memo } of client.schedule.list()) {
    if (memo?.["fleet"] !== fleet || !scheduleId.startsWith(prefix)) continue;
    const { action } = await client.schedule.getHandle(scheduleId).describe();
    const [input] = (action.args ?? []) as readonly Partial<CronInput>[];
    const from = fromIn(input?.terms?.file);
    if (from !== undefined) wanted.add(from);
  }
  return wanted;
}

function fromIn(file: unknown): string | undefined {
  let at = file;
  for (const key of ["run", "checkpoint", "from"])
    at = typeof at === "object" && at !== null ? (at as Record<string, unknown>)[key] : undefined;
  return typeof at === "string" ? at : undefined;
}
