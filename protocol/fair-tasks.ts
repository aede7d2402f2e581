/**
 * @file Whose turn it is when workflow tasks wait for a worker: the fairness keys of Temporal's task queues, one for each tenant.
 *
 * A server that shares its task queues fairly (`matching.enableFairness`) gives out the waiting tasks of all keys in turn, so that one tenant's
 * thousands of jobs delay another's by a task or two; other servers ignore the key. Activities inherit the key of their workflow.
 * All keys have the same priority: a class that went first could keep other tenants waiting for ever.
 */

import { crc32Text } from "../lib/crc32.ts";

interface TaskPriority {
  readonly fairnessKey: string;
}

/** Temporal refuses to start a workflow with a longer one. */
const MOST_BYTES = 64;
const SUM_BYTES = 8;

/** Names of tenants are plain ASCII; a name that is too long ends in its checksum instead. */
export const tenantPriority = (tenant: string): TaskPriority => ({
  fairnessKey:
    tenant.length <= MOST_BYTES
      ? tenant
      : `${tenant.slice(0, MOST_BYTES - SUM_BYTES - 1)}~${crc32Text(tenant)}`,
});

/** Fleets, presences, sweeps, monitors, learners and log sessions: no tenant has a colon in its name. */
export const OWN_PRIORITY: TaskPriority = Object.freeze({ fairnessKey: "orbweaver:own" });
