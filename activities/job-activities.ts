/** @file Local activities of the jobs' workers: reading job files, and talking with the fleet. */

import { WorkflowNotFoundError, type Client } from "@temporalio/client";
import { scheduledPart } from "../domain/gang-request.ts";
import { formatProblem, parseJobFile } from "../domain/job-file.ts";
import { outfitsOf } from "../domain/outfit.ts";
import type { JobSpec } from "../domain/job.ts";
import type { GangRequest } from "../domain/lease.ts";
import { tooLarge } from "../domain/job-size.ts";
import { DEFAULT_FENCE_MS, DEFAULT_SILENCE_MS } from "../domain/fleet.ts";
import {
  fleetWorkflowId,
  hostQuery,
  hasLeaseQuery,
  othersWaitQuery,
  silenceTermsQuery,
  type SilenceTerms,
} from "../workflows/messages.ts";
import { JOB_RULES, type JobActivities } from "./control-contract.ts";
import { createInbox } from "./inbox.ts";
import { untilForgotten } from "./until-forgotten.ts";

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
      const { jobId, runId, submittedAtMs, nowMs } = entry;
      const excess = tooLarge(file, spec);
      if (excess !== undefined) {
        return { kind: "refused", code: "REQUEST_TOO_LARGE", message: excess.message };
      }
      const told = spec.isHeld
        ? ({ kind: "silent" } as const)
        : await inbox.tell(entry.fleetWorkflowId, {
            kind: "request",
            request: {
              ...scheduledPart(spec),
              ...firstPatience(spec, entry.fleetWorkflowId),
              jobId,
              runId,
              seq: 1,
              submittedAtMs,
              requestedAtMs: nowMs,
            },
          });
      const outfits = outfitsOf(spec);
      return {
        kind: "admitted",
        rules: JOB_RULES,
        spec,
        told,
        ...(outfits.length > 0 && { outfits }),
      };
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
    // Without a fleet there are no terms yet: asked again until there is one.
    async silenceTerms(fleetWorkflowId, cluster) {
      const fleet = client.workflow.getHandle(fleetWorkflowId);
      return (await fleet.query(silenceTermsQuery, cluster)) ?? DEFAULT_TERMS;
    },
    untilForgotten: (fleetWorkflowId, jobId) => untilForgotten(client, fleetWorkflowId, jobId),
    async othersWait(fleetWorkflowId, jobId) {
      try {
        return await client.workflow.getHandle(fleetWorkflowId).query(othersWaitQuery, jobId);
      } catch (error) {
        if (error instanceof WorkflowNotFoundError) return false;
        throw error;
      }
    },
    async hasLease(fleetWorkflowId, lease) {
      try {
        return await client.workflow.getHandle(fleetWorkflowId).query(hasLeaseQuery, lease);
      } catch (error) {
        if (error instanceof WorkflowNotFoundError) return true;
        throw error;
      }
    },
  };
}

/** Absent where there is no other fleet to go to. */
function firstPatience({ cells }: JobSpec, home: string): Pick<GangRequest, "patienceMs"> {
  const isRing = cells?.fleets.some((fleet) => fleetWorkflowId(fleet) !== home) === true;
  return isRing ? { patienceMs: cells.patienceMs } : {};
}

/** Of a cluster that the fleet's description lacks: the fleet says so to whoever looks at its dead letters. */
const DEFAULT_TERMS: SilenceTerms = {
  silenceMs: DEFAULT_SILENCE_MS,
  fenceMs: DEFAULT_FENCE_MS,
  onSilence: "fence",
};
