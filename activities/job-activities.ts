/** @file Local activities of the jobs' workers: reading job files, and calls to the fleet. */

import { WorkflowNotFoundError, type Client } from "@temporalio/client";
import { ApplicationFailure } from "@temporalio/common";
import { scheduledPart } from "../domain/lease/gang-request.ts";
import { formatProblem, parseJobFile } from "../domain/job/job-file.ts";
import { extrasOf } from "../domain/lease/launch-extras.ts";
import type { JobSpec } from "../domain/job/job.ts";
import type { GangRequest } from "../domain/lease/lease.ts";
import { fileTooLarge, requestTooLarge } from "../domain/lease/job-size.ts";
import { ms } from "../domain/values/units.ts";
import { DEFAULT_FENCE_MS, DEFAULT_SILENCE_MS } from "../domain/fleet/fleet.ts";
import {
  fleetWorkflowId,
  hostQuery,
  hasLeaseQuery,
  othersWaitQuery,
  silenceTermsQuery,
  type SilenceTerms,
} from "../protocol/messages.ts";
import {
  JOB_RULES,
  RESTING_RULES,
  SIGNED_JOB_RULES,
  SIGNED_ORDER_JOB_RULES,
  type JobActivities,
  type JobEntry,
} from "../protocol/control-contract.ts";
import { sealProblem, type CameFlawed, type KeysInUse } from "../protocol/seal.ts";
import type { FollowActivities } from "../protocol/predecessors.ts";
import { createFollowActivities } from "./follow-jobs.ts";
import { createInbox } from "./inbox.ts";
import { leaveLobby } from "./lobby-activities.ts";
import { askedNow, signedFleets, type Asked } from "./signed-fleets.ts";
import { drainHost } from "./timed-drain.ts";
import { untilForgotten } from "./until-forgotten.ts";

/** Of a job, by what its fleet asks proof of. */
const RULES_UNDER: Readonly<Record<Asked, number>> = {
  nothing: RESTING_RULES,
  signals: SIGNED_JOB_RULES,
  orders: SIGNED_ORDER_JOB_RULES,
  all: JOB_RULES,
};

/** `keys`: of the payloads; with them a job whose input is not encrypted, or not for it, is refused. */
export function createJobActivities(
  client: Client,
  keys?: KeysInUse,
): JobActivities & FollowActivities {
  const inbox = createInbox(client);
  const askedBy = signedFleets(client);
  return {
    ...createFollowActivities(client),
    async admit(file, entry) {
      // The server says when the job began; nobody who starts one chooses that.
      const unsealed = sealProblem(keys, entry.flaw, { atMs: entry.submittedAtMs });
      if (unsealed !== undefined) {
        const message = `the job's input is refused: ${unsealed}`;
        return { kind: "refused", code: "NOT_ALLOWED", message };
      }
      const tooLong = fileTooLarge(file);
      if (tooLong !== undefined)
        return { kind: "refused", code: "REQUEST_TOO_LARGE", message: tooLong.message };
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
      const excess = requestTooLarge(spec);
      if (excess !== undefined) {
        return { kind: "refused", code: "REQUEST_TOO_LARGE", message: excess.message };
      }
      // Asked while the request is on its way.
      const asked = askedBy(entry.fleetWorkflowId);
      asked.catch(() => undefined);
      const notified =
        spec.isHeld || spec.after !== undefined
          ? ({ kind: "silent" } as const)
          : await inbox.tell(entry.fleetWorkflowId, {
              kind: "request",
              request: {
                ...scheduledPart(spec),
                ...firstPatience(spec, entry),
                jobId,
                runId,
                seq: 1,
                submittedAtMs,
                requestedAtMs: nowMs,
              },
            });
      const launchExtras = extrasOf(spec);
      return {
        kind: "admitted",
        rules: RULES_UNDER[await asked],
        spec,
        runId,
        notified,
        ...(launchExtras.length > 0 && { launchExtras }),
      };
    },
    async tellFleet(fleetWorkflowId, entry, exit) {
      const result = await inbox.tell(fleetWorkflowId, entry);
      if (exit !== undefined) await leaveLobby(client, exit);
      return result;
    },
    leaveLobby: (exit) => leaveLobby(client, exit),
    async findHost(fleetWorkflowId, host, came) {
      refuseUnsealed(keys, came);
      try {
        return await client.workflow.getHandle(fleetWorkflowId).query(hostQuery, host);
      } catch (error) {
        if (error instanceof WorkflowNotFoundError) return null;
        throw error;
      }
    },
    drainHost: (order) => drainHost(client, order),
    // Without a fleet there are no terms yet; the activity asks again until a fleet answers.
    async silenceTerms(fleetWorkflowId, cluster, came) {
      refuseUnsealed(keys, came);
      const fleet = client.workflow.getHandle(fleetWorkflowId);
      const terms = (await fleet.query(silenceTermsQuery, cluster)) ?? DEFAULT_TERMS;
      return (await askedNow(client, fleetWorkflowId)) === "all"
        ? { ...terms, isProofAsked: true }
        : terms;
    },
    // Whoever starts a learner names its fleet, which need not be one: then nobody has said that words need no proof.
    async asksForProof(fleetWorkflowId, came) {
      refuseUnsealed(keys, came);
      return (await askedNow(client, fleetWorkflowId, "all")) === "all";
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

/** Throws NOT_ALLOWED. */
function refuseUnsealed(keys: KeysInUse | undefined, came: CameFlawed | undefined): void {
  const why = sealProblem(keys, came?.flaw, came);
  if (why !== undefined)
    throw ApplicationFailure.nonRetryable(`what it asks is refused: ${why}`, "NOT_ALLOWED");
}

/** Counts from the submission, as `machines/job/outside.ts` has it. Absent when the job names no other fleet. */
function firstPatience(
  { cells }: JobSpec,
  { fleetWorkflowId: home, submittedAtMs, nowMs }: JobEntry,
): Pick<GangRequest, "patienceMs"> {
  const isRing = cells?.fleets.some((fleet) => fleetWorkflowId(fleet) !== home) === true;
  return isRing ? { patienceMs: ms(Math.max(0, cells.patienceMs - (nowMs - submittedAtMs))) } : {};
}

/** The cluster is missing in the fleet's description; the fleet shows this among its dead letters. */
const DEFAULT_TERMS: SilenceTerms = {
  silenceMs: DEFAULT_SILENCE_MS,
  fenceMs: DEFAULT_FENCE_MS,
  onSilence: "fence",
};
