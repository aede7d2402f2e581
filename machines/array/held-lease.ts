/** @file A lease that a job array holds: what it runs now, and where its tasks are found. */

import type { JobSpec } from "../../domain/job/job.ts";
import type { HostId, LeaseId } from "../../domain/values/ids.ts";
import type { Grant, PreemptOrder } from "../../protocol/job.ts";
import type { GivenUp } from "../../protocol/job-orders.ts";
import type { Gang } from "../gang/gang-state.ts";
import type { TaskPlace } from "./task-table.ts";

export interface HeldLease {
  /** With the newest addresses of its hosts' agents. */
  readonly grant: Grant;
  /** Tasks that it may run at a time. */
  readonly slots: number;
  /** The settings under which it was granted: its ticket is for them. */
  readonly spec: JobSpec;
  /** An order to suspend or requeue the job: its tasks go back to the queue. */
  readonly givenUp?: GivenUp;
  /** Hosts that the fleet has given up. */
  readonly fenced: readonly HostId[];
  /** The order to give the lease up: its tasks go back to the queue. */
  readonly preempt?: PreemptOrder;
  /** Of its present or last batch. */
  readonly batchSeq: number;
  /** Hosts that have not confirmed the end of its last batch. */
  readonly unconfirmedHosts: readonly HostId[];
  readonly work: LeaseWork;
}

export type LeaseWork =
  /** It takes the next batch if there is one. `hasAsked`: no other job waits for it. */
  | { readonly kind: "ready"; readonly hasAsked?: true }
  | { readonly kind: "running"; readonly gang: Gang; readonly tasks: readonly number[] }
  /** It is old, and the fleet is asked whether other jobs wait. */
  | { readonly kind: "asking"; readonly id: number }
  /** It is given back as soon as no assertion of it is on its way. */
  | { readonly kind: "over" };

export type HeldLeases = ReadonlyMap<LeaseId, HeldLease>;

export const holdLease = (grant: Grant, slots: number, spec: JobSpec): HeldLease => ({
  grant,
  spec,
  slots,
  fenced: [],
  batchSeq: 0,
  unconfirmedHosts: [],
  work: { kind: "ready" },
});

export const hostsOf = ({ lease }: Grant): readonly HostId[] => lease.gpus.map(({ host }) => host);

/** Tasks of its present batch. */
export const batchOf = ({ work }: HeldLease): readonly number[] =>
  work.kind === "running" ? work.tasks : [];

/** Of a task over several hosts, the place of its rank 0. */
export function placeOf({ grant }: HeldLease): TaskPlace {
  const { lease, agents } = grant;
  const [part] = lease.gpus;
  const agent = agents.find(({ host }) => host === part?.host)?.agent;
  return {
    ...(part !== undefined && { host: part.host }),
    leaseId: lease.id,
    ...(agent !== undefined && { orderQueue: agent.orderQueue }),
  };
}
