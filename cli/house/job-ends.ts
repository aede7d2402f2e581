/**
 * @file Whether a job has ended, so that what it left may go: asked of Temporal, which alone knows; of a job that Temporal has dropped, of the history database.
 *
 * Held back: a job that has not ended, whatever it waits for; one that did not complete, while Temporal has its history and can set it back. What becomes of a
 * job that neither knows is for `noted-ends.ts`.
 */

import { WorkflowNotFoundError, type Client, type WorkflowHandle } from "@temporalio/client";
import { tenantId, type TenantId } from "../../domain/values/ids.ts";
import { TENANT_KEY } from "../../client/search-keys.ts";

export type JobEnd =
  | {
      readonly kind: "held";
      readonly why: string;
      /** When it ended otherwise than completed. */
      readonly closedMs?: number;
      readonly tenant?: TenantId;
    }
  | { readonly kind: "ended"; readonly atMs: number; readonly tenant?: TenantId }
  /** Neither Temporal nor the history database knows it. */
  | { readonly kind: "unknown" };

/** The last end of a job by the history database. */
export interface RecordedEnd {
  readonly endedMs: number;
  readonly tenant: TenantId;
}

export type RecordedEnds = ReadonlyMap<string, RecordedEnd>;

export interface EndedJobs {
  readonly endOf: (job: string) => Promise<JobEnd>;
}

export function endedJobs(client: Client, recorded: RecordedEnds): EndedJobs {
  return {
    async endOf(job) {
      const row = recorded.get(job);
      const found = await describe(client, job);
      if (found === undefined)
        return row === undefined
          ? { kind: "unknown" }
          : { kind: "ended", atMs: row.endedMs, tenant: row.tenant };
      const { status, closeTime, typedSearchAttributes } = found;
      const named = typedSearchAttributes.get(TENANT_KEY);
      const tenant = row?.tenant ?? (named === undefined ? undefined : tenantId(named));
      const whose = tenant === undefined ? {} : { tenant };
      if (closeTime === undefined) return { kind: "held", why: "its job has not ended", ...whose };
      return status.name === "COMPLETED"
        ? { kind: "ended", atMs: closeTime.getTime(), ...whose }
        : {
            kind: "held",
            closedMs: closeTime.getTime(),
            why: "its job did not complete, and can be reset while Temporal keeps its history",
            ...whose,
          };
    },
  };
}

type Description = Awaited<ReturnType<WorkflowHandle["describe"]>>;

/** Undefined where Temporal has no such workflow, or none any more. */
export async function describe(
  client: Client,
  workflowId: string,
): Promise<Description | undefined> {
  try {
    return await client.workflow.getHandle(workflowId).describe();
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return undefined;
    throw error;
  }
}
