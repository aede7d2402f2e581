/**
 * @file How a job describes itself: its id, its search attributes, the view of one attempt, why it waits without a fleet, and its failure.
 */

import { defineSearchAttributeKey } from "@temporalio/common";
import { ApplicationFailure } from "@temporalio/workflow";
import type { FailureCode } from "../domain/codes.ts";
import { jobId, type JobId } from "../domain/ids.ts";
import { popCount, type Lease, type LeaseFact } from "../domain/lease.ts";
import type { AttemptView, Grant, JobFailureDetails, JobView } from "./messages.ts";

/** Whether a signal that claims to be a grant is one: junk must not be run. */
export function isGrant(value: unknown): value is Grant {
  if (!isFields(value) || !Number.isSafeInteger(value["seq"])) return false;
  const { lease, agents } = value;
  if (!Array.isArray(agents) || !isFields(lease) || !Array.isArray(lease["gpus"])) return false;
  const parts: readonly unknown[] = lease["gpus"];
  return (
    typeof lease["id"] === "string" &&
    typeof lease["runId"] === "string" &&
    parts.length > 0 &&
    parts.every((part) => isFields(part) && typeof part["host"] === "string")
  );
}

const isFields = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null;

/** Without how far the fleet's ledger has got with it. */
export function factOf(lease: Lease): LeaseFact {
  const {
    state: _state,
    vacatingHosts: _left,
    vacatedHosts: _early,
    isDoubted: _is,
    terms: _terms,
    eviction: _order,
    checkpointedAtMs: _saved,
    causedLossGpuSeconds: _cost,
    loan: _loan,
    ...fact
  } = lease;
  return fact;
}

export const STATE = defineSearchAttributeKey("OrbweaverState", "KEYWORD");
export const FLEET = defineSearchAttributeKey("OrbweaverFleet", "KEYWORD");
export const HOME = defineSearchAttributeKey("OrbweaverHome", "KEYWORD");
export const CLASS = defineSearchAttributeKey("OrbweaverClass", "KEYWORD");
export const TENANT = defineSearchAttributeKey("OrbweaverTenant", "KEYWORD");
export const CLUSTER = defineSearchAttributeKey("OrbweaverCluster", "KEYWORD_LIST");
export const GPUS = defineSearchAttributeKey("OrbweaverGpus", "INT");

/** The view of a run that has just been granted. */
export function attemptView(
  { lease, agents, predictedGBs, bandwidth, reason }: Grant,
  run: {
    readonly attempt: number;
    readonly requestedAtMs: number;
    readonly launch: "per-gpu" | "per-host";
  },
): AttemptView {
  let nextRank = 0;
  return {
    attempt: run.attempt,
    leaseId: lease.id,
    requestedAtMs: run.requestedAtMs,
    grantedAtMs: lease.grantedAtMs,
    gpus: lease.gpus.map(({ host, mask }) => {
      const count = run.launch === "per-gpu" ? popCount(mask) : 1;
      const ranks = Array.from({ length: count }, (_, index) => nextRank + index);
      nextRank += count;
      return {
        host,
        mask,
        orderQueue: agents.find((entry) => entry.host === host)?.agent.orderQueue ?? "",
        ranks,
      };
    }),
    ...(predictedGBs !== undefined && { predictedGBs }),
    ...(bandwidth !== undefined && { bandwidth }),
    reason,
  };
}

export const noFleet = (fleet: string, message: string): JobView["pending"] => ({
  code: "NoFleet",
  message: `fleet "${fleet}" does not answer (${message}); the job asks again. Start it with \`orbweaver up\`.`,
  numbers: {},
  holders: [],
  wakeOn: ["timer"],
});

/** A job's id is the workflow's; one that could never be written on a command line is refused. */
export function readId(workflowId: string): JobId {
  try {
    return jobId(workflowId);
  } catch {
    throw failure(
      "MISCONFIGURED",
      `the workflow id ${JSON.stringify(workflowId)} has white space; a job's id may not. Start it under another.`,
      { attempts: 0 },
    );
  }
}

/** The failure that ends a job. */
export function failure(
  code: FailureCode,
  message: string,
  details: Omit<JobFailureDetails, "code">,
): ApplicationFailure {
  return ApplicationFailure.create({
    type: code,
    message,
    nonRetryable: true,
    details: [{ code, ...details }],
  });
}
