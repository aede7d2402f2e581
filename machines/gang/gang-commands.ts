/**
 * @file What a gang asks its workflow to do on hosts: run a part, stop it, find where an agent is now, watch runs no longer.
 *
 * Each command says with which address and within which times. All times follow from the job's description and from the silence that
 * the fleet allows the host.
 */

import type { RunOrder, StopOrder, TaskBatch } from "../../protocol/agent-contract.ts";
import type { Grant } from "../../protocol/job.ts";
import type { AgentAddress } from "../../domain/lease/inbox-entry.ts";
import type { JobSpec } from "../../domain/job/job.ts";
import { ledBy, type LaunchExtras } from "../../domain/lease/launch-extras.ts";
import { gpuCountOf } from "../../domain/lease/lease.ts";
import type { HostId, LeaseId } from "../../domain/values/ids.ts";

export interface GangInput {
  readonly jobId: RunOrder["jobId"];
  readonly workflowRunId: string;
  readonly fleetWorkflowId: string;
  readonly spec: JobSpec;
  readonly grant: Grant;
  readonly attempt: number;
  /** How much of the time limit suspended runs have used. */
  readonly ranMs?: number;
  /** As in the order. */
  readonly formerTokens?: RunOrder["formerTokens"];
  /** Present for a job array: the tasks that this run of the lease is for. */
  readonly taskBatch?: TaskBatch;
  /** What was made for this run before its start. */
  readonly launchExtras?: LaunchExtras;
  /** Where a host has no agent, the fleet is asked whether the lease is still there. */
  readonly isLeaseAsked?: true;
  /** Hosts may say that a GPU of theirs has broken; see `Watch`. */
  readonly hearsOfFaults?: true;
}

/** Ids are unique among all gangs of a job. `run`, `stop` and `find-host` are answered by the event with the same id. */
export type GangCommand =
  | {
      readonly kind: "run";
      readonly id: string;
      readonly host: HostId;
      readonly agent: AgentAddress;
      readonly order: RunOrder;
      readonly summary: string;
      readonly timeouts: ActivityTimeouts;
    }
  | {
      readonly kind: "stop";
      readonly id: string;
      readonly host: HostId;
      readonly agent: AgentAddress;
      readonly order: StopOrder;
      readonly summary: string;
      readonly timeouts: ActivityTimeouts;
    }
  | {
      readonly kind: "find-host";
      readonly id: string;
      readonly host: HostId;
      readonly fleetWorkflowId: string;
      /** To be asked about as well where no agent is found. */
      readonly lease?: LeaseId;
    }
  /** Cancels the activities of these runs; each still ends with its answer. */
  | { readonly kind: "stop-watching"; readonly ids: readonly string[] };

export interface ActivityTimeouts {
  /** Unclaimed for this long, the task counts as one without an agent. */
  readonly scheduleToStartMs: number;
  readonly startToCloseMs: number;
  readonly heartbeatMs: number;
}

/** How long the hosts of a gang may take to get ready. */
const PREPARE_TIMEOUT_MS = 120_000;
/** An agent heartbeats three times in this time; a host that misses all three is silent. A cluster may demand a shorter time. */
const HEARTBEAT_TIMEOUT_MS = 60_000;
const PICKUP_TIMEOUT_MS = 60_000;
/** Processes without a time limit may run for a year. */
const UNLIMITED_MS = 365 * 24 * 3_600_000;
/** Added to the graces: how long a host may take to carry out a stop order. */
const STOP_SLACK_MS = 60_000;
const STOP_PICKUP_TIMEOUT_MS = 15_000;
/** After this an agent that died while it stopped a run is asked no more; its successor is. */
const STOP_HEARTBEAT_TIMEOUT_MS = 20_000;

/** One part of the gang as a command names it: which command, on which host, at which address. */
export interface HostCall {
  readonly id: string;
  readonly host: HostId;
  readonly agent: AgentAddress;
}

/** Where each host of a gang is reached. */
export type Agents = ReadonlyMap<HostId, AgentAddress>;

/** `peers`: all hosts of the gang as they were at its start, since its ranks connect to each other. */
export function runCommand(
  input: GangInput,
  peers: Agents,
  { id, host, agent }: HostCall,
): GangCommand {
  const { spec, grant, taskBatch } = input;
  const silenceMs = grant.agents.find((entry) => entry.host === host)?.silenceMs ?? Infinity;
  const order = runOrder(input, peers, host);
  return {
    kind: "run",
    id,
    host,
    agent,
    order,
    summary: runSummary(order),
    timeouts: {
      scheduleToStartMs: PICKUP_TIMEOUT_MS,
      startToCloseMs: runMs(spec, taskBatch) + prepareMs(spec) + stopMs(spec),
      heartbeatMs: Math.min(silenceMs, HEARTBEAT_TIMEOUT_MS),
    },
  };
}

export function stopCommand(
  { jobId, spec, grant }: GangInput,
  { id, host, agent }: HostCall,
  { reason, isKill }: { readonly reason: string; readonly isKill: boolean },
): GangCommand {
  const { id: leaseId, token } = grant.lease;
  return {
    kind: "stop",
    id,
    host,
    agent,
    order: {
      jobId,
      host,
      leaseId,
      token,
      isCheckpointFirst: !isKill && spec.run.checkpoint !== undefined,
      reason,
      ...(isKill && { isKill }),
      ...(grant.ticket !== undefined && { ticket: grant.ticket }),
    },
    summary: `${isKill ? "kill" : "stop"} ${leaseId} on ${host}: ${reason}`,
    timeouts: {
      scheduleToStartMs: STOP_PICKUP_TIMEOUT_MS,
      startToCloseMs: stopMs(spec) + STOP_SLACK_MS,
      heartbeatMs: STOP_HEARTBEAT_TIMEOUT_MS,
    },
  };
}

function runOrder(input: GangInput, peers: Agents, host: HostId): RunOrder {
  const { jobId, workflowRunId, spec, grant, attempt, taskBatch, launchExtras, ranMs } = input;
  const { formerTokens } = input;
  const { lease } = grant;
  const { runId, seq, class: jobClass, tenant, grantedAtMs, requestedAtMs, resources } = lease;
  return {
    jobId,
    jobName: spec.name,
    workflowId: jobId,
    workflowRunId,
    leaseId: lease.id,
    token: lease.token,
    holder: {
      runId,
      seq,
      class: jobClass,
      tenant,
      grantedAtMs,
      requestedAtMs,
      ...(resources !== undefined && { resources }),
    },
    attempt,
    host,
    gang: ledBy(lease.gpus, launchExtras?.leadHost).map((part) => ({
      ...part,
      address: peers.get(part.host)?.address ?? "",
    })),
    run: spec.run,
    ...(spec.model !== undefined && { model: spec.model }),
    ...(spec.batch !== undefined && { batch: spec.batch }),
    ...(spec.array === undefined && { gpusRequested: spec.gang.gpus }),
    prepareTimeoutMs: prepareMs(spec),
    ...(spec.timeLimitMs !== undefined && { timeLimitMs: spec.timeLimitMs }),
    ...(spec.after !== undefined && { after: spec.after }),
    ...(spec.mayFollowFailure === true && { mayFollowFailure: true }),
    ...(spec.timeLimitMs !== undefined && ranMs !== undefined && { ranMs }),
    ...(formerTokens !== undefined && { formerTokens }),
    ...(taskBatch !== undefined && { taskBatch }),
    ...(launchExtras !== undefined && { launchExtras }),
    ...(grant.ticket !== undefined && { ticket: grant.ticket }),
    ...(isToldFaults(input) && { hearsOfFaults: true }),
  };
}

/** What a single host can save it saves by itself. */
const isToldFaults = ({ hearsOfFaults, spec, grant }: GangInput): boolean =>
  hearsOfFaults === true && spec.run.checkpoint !== undefined && grant.lease.gpus.length > 1;

/** A host that has an image waits for one that still fetches it. */
const prepareMs = ({ run }: JobSpec): number =>
  PREPARE_TIMEOUT_MS + (run.container?.pullTimeoutMs ?? 0);

/** The longest that the processes may run. Each turn of a slot has the time limit, and the time to stop, to itself. */
function runMs(spec: JobSpec, batch: TaskBatch | undefined): number {
  if (spec.timeLimitMs === undefined) return UNLIMITED_MS;
  if (batch === undefined) return spec.timeLimitMs;
  const turns = Math.ceil(batch.tasks.length / batch.slots);
  return Math.min(UNLIMITED_MS, turns * (spec.timeLimitMs + stopMs(spec)));
}

/** The longest that a graceful stop may take: the checkpoint, then one grace each for TERM and KILL. */
const stopMs = (spec: JobSpec): number =>
  (spec.run.checkpoint?.graceMs ?? 0) + 2 * spec.run.graceMs;

function runSummary({ host, gang, taskBatch }: RunOrder): string {
  if (taskBatch !== undefined) {
    const [first] = taskBatch.tasks;
    const more = taskBatch.tasks.length - 1;
    return `${host}: task ${first}${more > 0 ? ` and ${more} more` : ""}, ${taskBatch.slots} at a time`;
  }
  const at = gang.findIndex((part) => part.host === host);
  const first = gpuCountOf(gang.slice(0, at));
  const count = gpuCountOf(gang.slice(at, at + 1));
  return `${host}: ${count} of ${gpuCountOf(gang)} GPUs, ranks ${first} to ${first + count - 1}`;
}
