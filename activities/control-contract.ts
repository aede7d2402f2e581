/** @file Activities of the control plane: what the job and fleet workflows ask of their own workers. Types only. */

import type { FailureCode } from "../domain/codes.ts";
import type { JobSpec } from "../domain/job.ts";
import type { LeaseId } from "../domain/ids.ts";
import type { GangRequest, Lease } from "../domain/lease.ts";
import type { Plan } from "../domain/plan.ts";
import type { AgentAddress, InboxEntry, OutboxGrant } from "../scheduling/ledger.ts";
import type { PackedLedger } from "../scheduling/ledger-codec.ts";

/** Local activities of the jobs' workers. */
export interface JobActivities {
  /** Reads the job file, and says under which rules this run of the workflow goes. */
  admit(file: unknown): Promise<Admission>;
  /** Hands entries to the fleet's inbox together with those of other jobs; returns when the fleet has them. */
  tellFleet(fleetWorkflowId: string, entry: InboxEntry): Promise<Told>;
  /** Where a host's agent is now. */
  findHost(fleetWorkflowId: string, host: string): Promise<AgentAddress | undefined>;
}

export type Admission =
  | { readonly kind: "admitted"; readonly spec: JobSpec }
  | { readonly kind: "refused"; readonly code: FailureCode; readonly message: string; readonly problems: readonly string[] };

export type Told = { readonly kind: "told" } | { readonly kind: "no-fleet"; readonly message: string };

/** Activities of the fleet's worker. `decide` is a local one: its answer is in history, its arguments are not. */
export interface FleetActivities {
  decide(snapshot: PackedLedger, nowMs: number): Promise<Plan>;
  deliver(grants: readonly Delivery[]): Promise<DeliveryReport>;
}

export interface Delivery {
  readonly lease: Lease;
  readonly grant: OutboxGrant;
  readonly request: Pick<GangRequest, "jobId" | "runId" | "seq">;
  readonly agents: readonly { readonly host: string; readonly agent: AgentAddress }[];
}

export interface DeliveryReport {
  readonly accepted: readonly LeaseId[];
  readonly gone: readonly LeaseId[];
}
