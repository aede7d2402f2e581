/**
 * @file What a fleet's ledger holds that no job, host or agent confirms: found by describing the jobs, and by asking those that are open.
 *
 * Doubted are leases that are vacating, leases and requests whose run is over, leases whose open job says that it runs on others or on
 * none, and reservations of jobs that neither wait nor hold anything. Only leases that did not come from a grant of this ledger, or that
 * are one of several of a job, have their job asked for its view; the others are described alone. Nothing is changed.
 * Cost: one description for each job that holds or waits, 32 at a time.
 */

import { isGrpcServiceError, WorkflowNotFoundError, type Client } from "@temporalio/client";
import type { HostId, JobId, LeaseId } from "../domain/values/ids.ts";
import { gpuCountOf, type Lease } from "../domain/lease/lease.ts";
import { each } from "../lib/each.ts";
import { doesDeny } from "../protocol/job.ts";
import { jobViewQuery } from "../protocol/messages.ts";
import type { HostStatus, Ledger } from "../scheduling/ledger/ledger.ts";

export type Doubt =
  | {
      readonly kind: "lease";
      readonly lease: LeaseId;
      readonly jobId: JobId;
      readonly gpus: number;
      readonly isVacating: boolean;
      readonly job: JobWord;
      /** Hosts that have not confirmed that nothing runs there. */
      readonly hosts: readonly DoubtedHost[];
    }
  | { readonly kind: "request"; readonly jobId: JobId; readonly job: JobWord }
  | { readonly kind: "reservation"; readonly jobId: JobId; readonly gpus: number };

/** `closed`: its run is over. `denies`: it is open, and runs on other GPUs or on none. `silent`: it does not say. */
export type JobWord = "closed" | "denies" | "silent" | "holds";

export interface DoubtedHost {
  readonly host: HostId;
  /** Whether somebody is there to be asked. */
  readonly agent: "answers" | "silent" | "none";
}

export async function findDoubts(client: Client, ledger: Ledger): Promise<readonly Doubt[]> {
  const leases = [...ledger.leases.values()];
  const suspects = suspectsAmong(leases);
  const leaseDoubts = await each(leases, async (lease): Promise<readonly Doubt[]> => {
    const { id, jobId, state } = lease;
    const isVacating = state === "vacating";
    const job = await wordOf(client, lease, isVacating || suspects.has(id));
    if (job === "holds" && !isVacating) return [];
    const hosts = openHosts(lease).map((host) => ({
      host,
      agent: agentOf(ledger.hosts.get(host)),
    }));
    const gpus = gpuCountOf(lease.gpus);
    return [{ kind: "lease", lease: id, jobId, gpus, isVacating, job, hosts }];
  });
  const requestDoubts = await each(
    [...ledger.requests.values()],
    async ({ jobId, runId }): Promise<readonly Doubt[]> => {
      const isOpen = (await openRun(client, jobId)) === runId;
      return isOpen ? [] : [{ kind: "request", jobId, job: "closed" }];
    },
  );
  const holders = new Set(leases.map(({ jobId }) => jobId));
  const reserved = [...(ledger.reservations?.values() ?? [])].flatMap(({ jobId, gpus }): Doubt[] =>
    holders.has(jobId) || ledger.requests.has(jobId)
      ? []
      : [{ kind: "reservation", jobId, gpus: gpuCountOf(gpus) }],
  );
  return [...leaseDoubts.flat(), ...requestDoubts.flat(), ...reserved];
}

/** Leases that came from a report, and those of jobs with several that have no slots. */
function suspectsAmong(leases: readonly Lease[]): ReadonlySet<LeaseId> {
  const counts = new Map<JobId, number>();
  for (const { jobId } of leases) counts.set(jobId, (counts.get(jobId) ?? 0) + 1);
  return new Set(
    leases
      .filter(
        ({ jobId, terms, slots, isUnconfirmed }) =>
          isUnconfirmed === true ||
          terms === undefined ||
          (slots === undefined && (counts.get(jobId) ?? 0) > 1),
      )
      .map(({ id }) => id),
  );
}

async function wordOf(
  client: Client,
  { jobId, runId, id }: Lease,
  isAsked: boolean,
): Promise<JobWord> {
  if ((await openRun(client, jobId)) !== runId) return "closed";
  if (!isAsked) return "holds";
  try {
    const view = await client.workflow.getHandle(jobId, runId).query(jobViewQuery);
    if (view.array !== undefined && view.array.isUnbegun !== true) return "silent";
    return doesDeny(view, id) ? "denies" : "holds";
  } catch {
    return "silent";
  }
}

/** The run in which a workflow is open; undefined when it is closed, never was, or cannot be. */
async function openRun(client: Client, workflowId: string): Promise<string | undefined> {
  try {
    const { status, runId } = await client.workflow.getHandle(workflowId).describe();
    return status.name === "RUNNING" || status.name === "PAUSED" ? runId : undefined;
  } catch (error) {
    if (error instanceof WorkflowNotFoundError || isInvalidId(error)) return undefined;
    throw error;
  }
}

const INVALID_ARGUMENT = 3;

/** Junk in a request may name a job that no workflow can be. */
function isInvalidId(error: unknown): boolean {
  const cause = error instanceof Error ? (error.cause ?? error) : error;
  return isGrpcServiceError(cause) && Number(cause.code) === INVALID_ARGUMENT;
}

const openHosts = ({ gpus, vacatingHosts, vacatedHosts = [] }: Lease): readonly HostId[] =>
  vacatingHosts ?? gpus.map(({ host }) => host).filter((host) => !vacatedHosts.includes(host));

function agentOf(status: HostStatus | undefined): DoubtedHost["agent"] {
  if (status?.agent === undefined) return "none";
  return status.silentSinceMs === undefined ? "answers" : "silent";
}
