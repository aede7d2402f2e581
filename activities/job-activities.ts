/** @file Local activities of the jobs' workers: reading job files, and talking with the fleet. */

import { WorkflowNotFoundError, type Client } from "@temporalio/client";
import { formatProblem, parseJobFile, requestBytes } from "../domain/job-file.ts";
import type { JobSpec } from "../domain/job.ts";
import { hostQuery } from "../workflows/messages.ts";
import { JOB_RULES, type JobActivities, type JobEntry } from "./control-contract.ts";
import { createInbox } from "./inbox.ts";

/** What a fleet reads of one job may not be larger: thousands of requests wait in its ledger. */
export const MAX_REQUEST_BYTES = 8 * 1024;

export function createJobActivities(client: Client): JobActivities {
  const inbox = createInbox(client);
  return {
    async admit(file, entry) {
      const parsed = parseJobFile(file);
      if (parsed.kind === "refused") {
        return {
          kind: "refused",
          code: "MISCONFIGURED",
          message: parsed.problems.map(formatProblem).join("\n"),
        };
      }
      const { spec } = parsed;
      const bytes = requestBytes(spec);
      if (bytes > MAX_REQUEST_BYTES) {
        return {
          kind: "refused",
          code: "REQUEST_TOO_LARGE",
          message: `the part of ${entry.jobId} that scheduling reads is ${bytes} bytes; ${MAX_REQUEST_BYTES} are allowed. Shorten its constraints.`,
        };
      }
      const told = spec.isHeld
        ? ({ kind: "silent" } as const)
        : await inbox.tell(entry.fleetWorkflowId, {
            kind: "request",
            request: firstRequest(spec, entry),
          });
      return { kind: "admitted", rules: JOB_RULES, spec, told };
    },
    tellFleet: (fleetWorkflowId, entry) => inbox.tell(fleetWorkflowId, entry),
    async findHost(fleetWorkflowId, host) {
      try {
        return await client.workflow.getHandle(fleetWorkflowId).query(hostQuery, host);
      } catch (error) {
        if (error instanceof WorkflowNotFoundError) return null;
        throw error;
      }
    },
  };
}

function firstRequest(spec: JobSpec, { jobId, runId, submittedAtMs, nowMs }: JobEntry) {
  const { name, tenant, class: jobClass, priority, gang, constraints, timeLimitMs } = spec;
  return {
    jobId,
    runId,
    seq: 1,
    name,
    tenant,
    class: jobClass,
    priority,
    gang,
    constraints,
    submittedAtMs,
    requestedAtMs: nowMs,
    ...(timeLimitMs !== undefined && { timeLimitMs }),
  };
}
