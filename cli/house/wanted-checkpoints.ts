/**
 * @file Of which ended jobs others of a fleet are to go on (`run.checkpoint.from`), by their files: jobs that run or wait now, and the jobs of schedules. Wakes no
 * worker; a call for each of them.
 */

import type { Client } from "@temporalio/client";
import { listedSchedules, scheduleOf } from "../../api/schedules.ts";
import { firstInput } from "../../client/first-input.ts";
import { FLEET_KEY } from "../../client/search-keys.ts";
import { jobId } from "../../domain/values/ids.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { isFields } from "../../lib/fields.ts";
import { cronScheduleId } from "../../protocol/cron.ts";
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
  for await (const { scheduleId, memo } of listedSchedules(client, prefix)) {
    if ((memo.get("fleet") ?? fleet) !== fleet) continue;
    const schedule = await scheduleOf(client, scheduleId);
    // With its key it might be one that the service believes. What nobody can read starts nothing, and anybody may have made it.
    if (isSealedTo(schedule?.problem)) throw schedule?.problem;
    const from = fromIn(fileIn(schedule?.input));
    if (from !== undefined) wanted.add(from);
  }
  return wanted;
}

const isSealedTo = (problem: unknown): problem is OrbweaverError =>
  problem instanceof OrbweaverError && problem.code === "ENCRYPTION_KEY_MISSING";

/** Of a schedule. */
const fileIn = (input: unknown): unknown => valueAt(input, ["terms", "file"]);

function fromIn(file: unknown): string | undefined {
  const from = valueAt(file, ["run", "checkpoint", "from"]);
  return typeof from === "string" ? from : undefined;
}

const valueAt = (value: unknown, keys: readonly string[]): unknown =>
  keys.reduce<unknown>((at, key) => (isFields(at) ? at[key] : undefined), value);
