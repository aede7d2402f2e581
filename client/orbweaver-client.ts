/**
 * @file The client library: submit jobs, look at them, steer them, over any Temporal `Client`.
 *
 * It keeps nothing but the client and the fleet's name. Every failure with a code is an `OrbweaverError`.
 */

import type { Client } from "@temporalio/client";
import type { HostId } from "../domain/ids.ts";
import type { JobFile } from "../domain/job-file.ts";
import { OrbweaverError } from "../domain/failure.ts";
import {
  DEFAULT_FLEET,
  drainUpdate,
  fenceUpdate,
  FLEET_TASK_QUEUE,
  fleetWorkflowId,
  ledgerQuery,
  undrainUpdate,
  unpackLedger,
  type Ledger,
} from "../workflows/messages.ts";
import {
  fenceAccount,
  hostsNamed,
  refuseAnswering,
  type FencedHost,
  type FenceOptions,
} from "./fencing.ts";
import { openJob, type JobHandle } from "./job-handle.ts";
import { listJobs, type JobFilter, type ListedJob } from "./job-list.ts";
import { asked } from "./server-error.ts";
import { submitJob, type SubmitOptions, type Submitted } from "./submission.ts";
import { queried } from "./waking.ts";

export interface OrbweaverClientOptions {
  /** Which fleet jobs go to and are listed from; `default` when absent. */
  readonly fleet?: string;
}

export class OrbweaverClient {
  readonly fleetName: string;
  readonly #client: Client;

  constructor(client: Client, { fleet = DEFAULT_FLEET }: OrbweaverClientOptions = {}) {
    this.#client = client;
    this.fleetName = fleet;
  }

  /** Submits a job, given as an object or as the YAML text of a job file. */
  async submit(job: JobFile | string, options: SubmitOptions = {}): Promise<Submitted> {
    return await submitJob(this.#client, job, { fleet: this.fleetName, ...options });
  }

  /** A handle on a job by its id; whether it exists is found out by using it. */
  job(id: string): JobHandle {
    return openJob(this.#client, id);
  }

  /** Jobs of the fleet, newest first; those that have ended only on demand. */
  async *list(filter: JobFilter = {}): AsyncGenerator<ListedJob> {
    const ledger = await this.fleet().catch((error: unknown) => {
      // Visibility answers without the fleet's worker, only with less to tell.
      if (error instanceof OrbweaverError && error.code !== "ENCRYPTION_KEY_MISSING")
        return undefined;
      throw error;
    });
    yield* listJobs(this.#client, {
      fleet: this.fleetName,
      filter,
      ...(ledger !== undefined && { ledger }),
    });
  }

  /** What the fleet knows: hosts, leases, requests in their order, why each waits. */
  async fleet(): Promise<Ledger> {
    const workflow = this.#client.workflow.getHandle(fleetWorkflowId(this.fleetName));
    return unpackLedger(
      await queried(this.#client, this.#subject(), {
        taskQueue: FLEET_TASK_QUEUE,
        query: () => workflow.query(ledgerQuery),
      }),
    );
  }

  /** No new grants on these hosts (`<cluster>/<host>`); what runs there goes on. */
  async drain(hosts: readonly string[], reason: string): Promise<readonly HostId[]> {
    const workflow = this.#client.workflow.getHandle(fleetWorkflowId(this.fleetName));
    return await asked(this.#client, this.#subject(), () =>
      workflow.executeUpdate(drainUpdate, { args: [{ hosts, reason }] }),
    );
  }

  /** Ends a drain. */
  async undrain(hosts: readonly string[]): Promise<readonly HostId[]> {
    const workflow = this.#client.workflow.getHandle(fleetWorkflowId(this.fleetName));
    return await asked(this.#client, this.#subject(), () =>
      workflow.executeUpdate(undrainUpdate, { args: [{ hosts }] }),
    );
  }

  /**
   * The operator's word that nothing runs on these hosts (`<cluster>/<host>`, or a cluster's name for all of it): their jobs move at once.
   * Hosts whose agents answer are refused, all or none, unless `isForced`. They are offered again when their agents report.
   */
  async fence(
    hosts: readonly string[],
    { isForced = false }: FenceOptions = {},
  ): Promise<readonly FencedHost[]> {
    const ledger = await this.fleet();
    const account = fenceAccount(ledger, hostsNamed(ledger, hosts, this.fleetName));
    if (!isForced) refuseAnswering(ledger, account);
    const workflow = this.#client.workflow.getHandle(fleetWorkflowId(this.fleetName));
    const fenced = await asked(this.#client, this.#subject(), () =>
      workflow.executeUpdate(fenceUpdate, { args: [{ hosts: account.map(({ host }) => host) }] }),
    );
    return account.filter(({ host }) => fenced.includes(host));
  }

  #subject(): string {
    return `fleet ${this.fleetName}`;
  }
}
