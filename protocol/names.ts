/** @file The names that clients, workflows and workers share: task queues, workflow types and ids, memo keys. */

import type { JobId, LeaseId, TenantId } from "../domain/values/ids.ts";
import { ATTENDANTS_MEMO, ORDERS_MEMO, SIGNED_WORDS, WORDS_MEMO } from "./word-proof.ts";

export const JOB_TASK_QUEUE = "orbweaver-jobs";

export const FLEET_TASK_QUEUE = "orbweaver-fleet";

/** Solvers and models: what takes long and much of a processor, in a process of its own. */
export const SOLVER_TASK_QUEUE = "orbweaver-solver";

/** Each is also the name of the worker deployment that serves it. */
export const CONTROL_TASK_QUEUES = [FLEET_TASK_QUEUE, JOB_TASK_QUEUE, SOLVER_TASK_QUEUE] as const;

/** Begins the name under which a fleet's history is replayed to be looked into; see fleet-recorder.ts. */
export const RECORDER = "orbweaver-recorder";

export const JOB_WORKFLOW = "job";

export const FLEET_WORKFLOW = "fleet";
/** Of a task of the fleet's workflow: a worker on a machine that is busy with much else must be able to repeat a whole run within it (docs/decisions/0173). */
export const FLEET_TASK_TIMEOUT = "30s";

export const LOG_SESSION_WORKFLOW = "log-session";

export const SESSION_WORKFLOW = "session";

/** Started on a task queue to wake its workers; see `client/waking.ts`. */
export const WAKE_WORKFLOW = "wake";

/** How a workflow refuses a question that came with news of no task; asked again, it is answered. See `activation-guard.ts`. */
export const UNTIMELY_NEWS =
  "events came without a workflow task that is still open; the run is read again from its history";

export const DEFAULT_FLEET = "default";

export const PRESENCE_WORKFLOW = "presence";

export const SWEEP_WORKFLOW = "sweep";

export const LOBBY_WORKFLOW = "lobby";

const FLEET_PREFIX = "orbweaver-fleet-";

export const fleetWorkflowId = (fleet: string): string => `${FLEET_PREFIX}${fleet}`;

export const isFleetWorkflow = (workflowId: string): boolean => workflowId.startsWith(FLEET_PREFIX);

/** The name of the fleet that has this workflow. */
export const fleetOfWorkflow = (workflowId: string): string =>
  workflowId.slice(FLEET_PREFIX.length);

/** Goes along over continue-as-new, unlike a summary: by it commands find out whether they have the fleet's key. */
export const fleetMemo = (
  fleet: string,
  { areWordsSigned = false, areOrdersSigned = false, areAttendantsSigned = false }: AskedProof = {},
): Record<string, string> => ({
  fleet,
  ...(areWordsSigned && { [WORDS_MEMO]: SIGNED_WORDS }),
  ...(areOrdersSigned && { [ORDERS_MEMO]: SIGNED_WORDS }),
  ...(areAttendantsSigned && { [ATTENDANTS_MEMO]: SIGNED_WORDS }),
});

export interface AskedProof {
  readonly areWordsSigned?: boolean;
  readonly areOrdersSigned?: boolean;
  readonly areAttendantsSigned?: boolean;
}

/** The memo in which a job that has moved to another fleet says so, so that a list need not ask it. */
export const CELL_MEMO = "orbweaverCell";

/** The memo in which an array shows how far it is, so that a list need not ask every array. */
export const ARRAY_MEMO = "orbweaverArray";

/** Of a session that reads the output of a job; `number`: ten hexadecimal digits. Its signature covers it, so it is good for this job alone. */
export const logSessionId = (job: JobId, number: string): string => `logs-${job}-${number}`;

/** Undefined for another workflow than a log session. */
export const jobOfLogSession = (workflowId: string): string | undefined =>
  /^logs-(.*)-[0-9a-f]{10}$/s.exec(workflowId)?.[1];

export const presenceWorkflowId = (fleet: string, cluster: string): string =>
  `orbweaver-presence-${fleet}-${cluster}`;

/** Of the sweep that asks the hosts of a lease once, for a repair. */
export const repairSweepWorkflowId = (fleet: string, lease: LeaseId): string =>
  `orbweaver-repair-${fleet}-${lease}`;

export const sweepWorkflowId = (fleet: string, lease: LeaseId): string =>
  `orbweaver-sweep-${fleet}-${lease}`;

export const lobbyWorkflowId = (fleet: string, tenant: TenantId): string =>
  `orbweaver-lobby-${fleet}-${tenant}`;
