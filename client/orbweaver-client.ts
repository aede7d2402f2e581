/**
 * @file The client library: submits, shows and controls jobs over any Temporal `Client`.
 *
 * It keeps only the client and the fleet's name. Every failure with a code is an `OrbweaverError`.
 */

import type { Client } from "@temporalio/client";
import { userName } from "../access/own-identity.ts";
import { parseHostId, type HostId } from "../domain/values/ids.ts";
import type { PlannedDrain } from "../protocol/timed-drain.ts";
import type { QueuePart } from "../domain/lease/queue-part.ts";
import type { JobFile } from "../domain/job/job-file.ts";
import { OrbweaverError } from "../domain/values/failure.ts";
import { unpackLedger } from "../scheduling/ledger/codec.ts";
import type { Ledger, RepairNote } from "../scheduling/ledger/ledger.ts";
import {
  DEFAULT_FLEET,
  drainGpusUpdate,
  drainUpdate,
  fenceUpdate,
  fleetWorkflowId,
  holdQueueUpdate,
  releaseQueueUpdate,
  undrainGpusUpdate,
  undrainUpdate,
} from "../protocol/messages.ts";
import {
  fenceAccount,
  hostsNamed,
  refuseAnswering,
  type FencedHost,
  type FenceOptions,
} from "./fencing.ts";
import { fleetTrust, type FleetTrust } from "./agent-trust.ts";
import type { Doubt } from "./doubts.ts";
import { openJob, type JobHandle } from "./job-handle.ts";
import type { JobFilter } from "./job-filter.ts";
import { listJobs } from "./job-list.ts";
import type { ListedJob } from "./listed-job.ts";
import { ordered, type OrderCall } from "./orders.ts";
import { presentLedger } from "./present-ledger.ts";
import { asked } from "./server-error.ts";
import type { SubmitOptions, Submitted } from "./submission.ts";
import { partsOf, type NamedGpus } from "./named-gpus.ts";
import { callOffDrain, planDrain, plannedDrains } from "./timed-drains.ts";
import { submitAll, type SubmitAllOptions } from "./submit-all.ts";

/** One description for each job that holds or waits. */
const DOUBTS_WITHIN_MS = 300_000;

export interface OrbweaverClientOptions {
  /** The fleet that jobs are submitted to and listed from; `default` when absent. */
  readonly fleet?: string;
}

/** What a submit service answers to, too (`service-client.ts`). */
export type FleetClient = Pick<
  OrbweaverClient,
  | "fleetName"
  | "submit"
  | "submitAll"
  | "checkStarts"
  | "job"
  | "list"
  | "listPages"
  | "fleet"
  | "trust"
  | "drain"
  | "undrain"
  | "drainGpus"
  | "undrainGpus"
  | "planDrain"
  | "plannedDrains"
  | "fence"
  | "holdQueue"
  | "releaseQueue"
>;

export interface QueueHoldOptions {
  /** The operator; this user when absent. */
  readonly by?: string;
  readonly reason?: string;
  /** What runs there is not preempted either. */
  readonly isDraining?: boolean;
}

export interface DrainPlan {
  readonly atMs: number;
  readonly reason: string;
  /** The operator; this user when absent. */
  readonly by?: string;
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
    // Reading job files costs a list of jobs more than the list itself.
    const { submitJob } = await import("./submission.ts");
    return await submitJob(this.#client, job, { fleet: this.fleetName, ...options });
  }

  /**
   * Submits many jobs, each as an object or as YAML text: none while one has a problem, then many at a time; the answers are in the order of the jobs.
   * A server that has too much to do makes it wait.
   */
  async submitAll(
    jobs: readonly (JobFile | string)[],
    options: SubmitAllOptions = {},
  ): Promise<readonly Submitted[]> {
    return await submitAll(jobs, options, {
      submit: (job, each) => this.submit(job, each),
      check: (files) => this.checkStarts(files),
    });
  }

  /** Throws NEVER_STARTS with all of these that no end of other jobs would start on this fleet; nothing where the fleet does not answer. */
  async checkStarts(jobs: readonly (JobFile | string)[]): Promise<void> {
    const [{ readJob }, { checkStarts }] = await Promise.all([
      import("./submission.ts"),
      import("./never-starts.ts"),
    ]);
    if (jobs.length === 0) return;
    const specs = jobs.map((job) => readJob(job).spec);
    await checkStarts(this.#client, specs, this.fleetName);
  }

  /** A handle of a job by its id; whether the job exists shows at the first call. `by`: who gives it orders; this user when absent. */
  job(id: string, by: string = userName()): JobHandle {
    return openJob(this.#client, id, by);
  }

  /** Jobs of the fleet, newest first; ended ones only on request. */
  async *list(filter: JobFilter = {}): AsyncGenerator<ListedJob> {
    for await (const page of this.listPages(filter)) for (const job of page) yield job;
  }

  /** The same, at most a thousand at a time. */
  async *listPages({ isMine, ...asked }: JobFilter = {}): AsyncGenerator<readonly ListedJob[]> {
    const filter = isMine === true ? { ...asked, user: userName() } : asked;
    const ledger = async (): Promise<Ledger | undefined> => {
      try {
        return await this.fleet();
      } catch (error) {
        // Visibility answers even when the fleet's worker does not, with fewer facts.
        if (error instanceof OrbweaverError && error.code !== "ENCRYPTION_KEY_MISSING")
          return undefined;
        throw error;
      }
    };
    yield* listJobs(this.#client, { fleet: this.fleetName, filter, ledger });
  }

  /** The fleet's ledger: hosts, leases, waiting requests in order, and their reasons. */
  async fleet(): Promise<Ledger> {
    return unpackLedger(await presentLedger(this.#client, this.fleetName));
  }

  /** Whose jobs the hosts start, and in which containers, as their agents say. */
  async trust(ledger: Ledger): Promise<FleetTrust> {
    return await fleetTrust(this.#client, this.fleetName, ledger);
  }

  /** Stops new grants on these hosts (`<cluster>/<host>`); running jobs continue. */
  async drain(hosts: readonly string[], reason: string): Promise<readonly HostId[]> {
    await ordered(this.#call(), drainUpdate, { hosts, reason });
    return hosts.map(parseHostId);
  }

  /** Stops new grants of these GPUs of each of the hosts; the others are granted on, and running jobs continue. */
  async drainGpus(named: NamedGpus, reason: string): Promise<void> {
    await ordered(this.#call(), drainGpusUpdate, { gpus: partsOf(named), reason });
  }

  /** Ends such drains. */
  async undrainGpus(named: NamedGpus): Promise<void> {
    await ordered(this.#call(), undrainGpusUpdate, { gpus: partsOf(named) });
  }

  /** Drains these hosts at a time, instead of at another that was planned. Throws NOT_FOUND where the fleet has no such host. */
  async planDrain(
    hosts: readonly string[],
    { atMs, reason, by = userName() }: DrainPlan,
  ): Promise<readonly HostId[]> {
    const named = hostsNamed(await this.fleet(), hosts, this.fleetName);
    await asked(this.#client, this.#subject(), async () => {
      for (const host of named)
        await planDrain(this.#client, this.fleetName, {
          plan: { host, atMs, reason, by },
          nowMs: Date.now(),
        });
    });
    return named;
  }

  /** Those that have not begun. */
  async plannedDrains(): Promise<readonly PlannedDrain[]> {
    return await asked(this.#client, this.#subject(), () =>
      plannedDrains(this.#client, this.fleetName),
    );
  }

  /** Ends a drain, and calls off one that is planned. */
  async undrain(hosts: readonly string[]): Promise<readonly HostId[]> {
    await ordered(this.#call(), undrainUpdate, { hosts });
    const undrained = hosts.map(parseHostId);
    await asked(this.#client, this.#subject(), async () => {
      for (const host of undrained) await callOffDrain(this.#client, this.fleetName, host);
    });
    return undrained;
  }

  /** Nothing of this part of the queue starts until it is released; what runs goes on. */
  async holdQueue(
    queue: QueuePart,
    { by = userName(), reason, isDraining = false }: QueueHoldOptions = {},
  ): Promise<void> {
    const order = { queue, by, isDraining, ...(reason !== undefined && { reason }) };
    await ordered(this.#call(), holdQueueUpdate, order);
  }

  /** Ends such a hold. */
  async releaseQueue(queue: QueuePart): Promise<void> {
    await ordered(this.#call(), releaseQueueUpdate, { queue });
  }

  /**
   * The operator's statement that nothing runs on these hosts (`<cluster>/<host>`, or a cluster's name for all its hosts):
   * their jobs move at once. If the agent of any of them answers, all are refused, unless `isForced`. They are used again when
   * their agents register.
   */
  async fence(
    hosts: readonly string[],
    { isForced = false }: FenceOptions = {},
  ): Promise<readonly FencedHost[]> {
    const ledger = await this.fleet();
    const account = fenceAccount(ledger, hostsNamed(ledger, hosts, this.fleetName));
    if (!isForced) refuseAnswering(ledger, account);
    await ordered(this.#call(), fenceUpdate, { hosts: account.map(({ host }) => host) });
    return account;
  }

  /** What the ledger holds that no job, host or agent confirms, with the ledger. Changes nothing. */
  async doubts(): Promise<{ readonly doubts: readonly Doubt[]; readonly ledger: Ledger }> {
    const ledger = await this.fleet();
    const { findDoubts } = await import("./doubts.ts");
    const doubts = await asked(
      this.#client,
      this.#subject(),
      () => findDoubts(this.#client, ledger),
      { withinMs: DOUBTS_WITHIN_MS },
    );
    return { doubts, ledger };
  }

  /** Asks jobs and agents about these doubts, and frees what all of them deny; `by` names the operator. Takes up to minutes. */
  async repair(doubts: readonly Doubt[], by: string): Promise<RepairNote> {
    const ledger = (): Promise<Ledger> => this.fleet();
    const { repairFleet } = await import("./repair.ts");
    return await repairFleet({ client: this.#client, fleet: this.fleetName, by, ledger }, doubts);
  }

  #call(): OrderCall {
    const workflowId = fleetWorkflowId(this.fleetName);
    return { client: this.#client, workflowId, subject: this.#subject() };
  }

  #subject(): string {
    return `fleet ${this.fleetName}`;
  }
}
