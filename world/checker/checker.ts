/**
 * @file What must hold in a world, judged after each event by its own books: it shares no code with the machines and believes none of them.
 *
 * It sees the truth about processes, the ledgers that fleets keep, the ends of jobs and what their users were promised. The first violation
 * ends the world. Cost: O(leases + processes) for an event that changes a ledger, O(hosts of the gang) for a start, else nothing.
 */

import type { HostId, JobId, LeaseId } from "../../domain/values/ids.ts";
import type { RunOrder } from "../../protocol/agent-contract.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import type { Host, Witness } from "../hosts/host.ts";
import type { DrawnJob } from "../settings.ts";

export interface Violation {
  readonly law: string;
  readonly message: string;
  readonly atMs: number;
}

export interface Checker {
  readonly witness: Witness;
  /** `isRecovering`: the fleet is finding out what a lost ledger held. */
  readonly ledgerChanged: (ledger: Ledger, isRecovering: boolean) => void;
  readonly jobEnded: (job: JobId, how: string) => void;
  /** What its user, or an operator, has done to a job; `hold` and `release` once they were acknowledged. */
  readonly noteOrder: (job: JobId, order: "cancel" | "terminate" | "hold" | "release") => void;
  readonly violate: (law: string, message: string) => void;
  readonly violation: () => Violation | undefined;
  readonly endedJobs: () => ReadonlyMap<JobId, string>;
  readonly leases: () => number;
}

interface Books {
  /** Parts by their fate. */
  readonly started: Set<HostId>;
  readonly completed: Set<HostId>;
  readonly hosts: readonly HostId[];
}

export function createChecker(
  nowMs: () => number,
  hosts: () => ReadonlyMap<HostId, Host>,
  jobs: readonly DrawnJob[],
): Checker {
  let violation: Violation | undefined;
  /** Which lease's processes a GPU has, by `host gpu`. */
  const onGpu = new Map<string, LeaseId>();
  const books = new Map<LeaseId, Books>();
  const prepared = new Set<string>();
  const stopped = new Set<string>();
  /** The highest token by the time when the hold was acknowledged: what a host starts under an earlier one was its before. */
  const held = new Map<JobId, number>();
  const orders = new Map<JobId, Set<string>>();
  const ended = new Map<JobId, string>();
  const tokens = new Map<LeaseId, { readonly jobId: JobId; readonly token: number }>();
  const drawn = new Map<string, DrawnJob>(jobs.map((job) => [job.id, job]));
  let highest = 0;
  let last: Ledger["leases"] | undefined;

  function violate(law: string, message: string): void {
    violation ??= { law, message, atMs: nowMs() };
  }

  function started(host: HostId, order: RunOrder): void {
    const { leaseId, jobId, gang } = order;
    const mask = gang.find((part) => part.host === host)?.mask ?? 0;
    for (const key of keysOf(host, mask)) {
      const other = onGpu.get(key);
      if (other !== undefined)
        violate("one lease a GPU", `${leaseId} starts on ${key} beside ${other}`);
      onGpu.set(key, leaseId);
    }
    const book = books.get(leaseId) ?? {
      started: new Set(),
      completed: new Set(),
      hosts: gang.map((part) => part.host),
    };
    books.set(leaseId, book);
    if (book.started.has(host)) violate("started once", `${leaseId} starts on ${host} again`);
    book.started.add(host);
    for (const part of gang)
      if (part.host !== host && !prepared.has(`${part.host} ${leaseId}`))
        violate("whole gangs", `${leaseId} starts on ${host}, and ${part.host} is not prepared`);
    if (stopped.has(`${host} ${leaseId}`))
      violate(
        "stopped is stopped",
        `${leaseId} starts on ${host} after an order to stop was answered`,
      );
    if (order.token > (held.get(jobId) ?? Infinity))
      violate("held jobs wait", `${jobId} starts on ${host} although it is held`);
    const end = ended.get(jobId);
    if (end !== undefined && end !== "terminated")
      violate("ended jobs rest", `${jobId} starts on ${host} although it has ${end}`);
  }

  function processesEnded(host: HostId, { leaseId, gang }: RunOrder, how: string): void {
    const mask = gang.find((part) => part.host === host)?.mask ?? 0;
    for (const key of keysOf(host, mask)) if (onGpu.get(key) === leaseId) onGpu.delete(key);
    if (how === "completed") books.get(leaseId)?.completed.add(host);
  }

  function checkLeases({ leases, shape, nextToken }: Ledger): void {
    const taken = new Map<string, LeaseId>();
    const gpusOf = new Map<string, number>();
    for (const lease of leases.values()) {
      const { id, jobId, token, gpus, state, vacatingHosts = [] } = lease;
      let count = 0;
      for (const { host, mask } of gpus) {
        if (state === "vacating" && !vacatingHosts.includes(host)) continue;
        for (const key of keysOf(host, mask)) {
          count += 1;
          const other = taken.get(key);
          if (other !== undefined) violate("ledger", `${id} and ${other} both have ${key}`);
          taken.set(key, id);
        }
      }
      gpusOf.set(lease.tenant, (gpusOf.get(lease.tenant) ?? 0) + count);
      const known = tokens.get(id);
      if (known === undefined) {
        if (token <= highest) violate("tokens grow", `${id} comes after token ${highest}`);
        tokens.set(id, { jobId, token });
        highest = Math.max(highest, token);
        checkQuota(shape, { tenant: lease.tenant, has: gpusOf.get(lease.tenant) ?? 0 });
      } else if (known.jobId !== jobId || known.token !== token)
        violate("tokens grow", `${id} of ${jobId} was ${known.jobId}'s`);
      if (token >= nextToken)
        violate("tokens grow", `${id} is not below the next token ${nextToken}`);
    }
  }

  function checkQuota(
    { tenants }: Ledger["shape"],
    { tenant, has }: { readonly tenant: string; readonly has: number },
  ): void {
    const rule = tenants.find(({ id }) => id === tenant);
    const limits = Object.values(rule?.quota ?? {});
    const most = limits.reduce((sum, limit) => sum + limit, rule?.borrowingLimit ?? 0);
    if (limits.length > 0 && has > most)
      violate("quotas", `${tenant} was granted GPUs and has ${has} of ${most}`);
  }

  /** GPUs that the ledger offers are empty. */
  function checkCovered({ leases }: Ledger): void {
    for (const host of hosts().values())
      for (const { leaseId, jobId } of host.running.values()) {
        const lease = leases.get(leaseId);
        const isCovered =
          lease !== undefined &&
          (lease.state !== "vacating" || lease.vacatingHosts?.includes(host.id) === true);
        if (!isCovered)
          violate(
            "free means empty",
            `${leaseId} of ${jobId} runs on ${host.id}, where the ledger has nothing`,
          );
      }
  }

  return {
    witness: {
      // The lease that the ledger has may start there again, once what ran is gone.
      forgot: (host) => {
        for (const { started: parts } of books.values()) parts.delete(host);
        for (const key of [...stopped]) if (key.startsWith(`${host} `)) stopped.delete(key);
      },
      prepared: (host, { leaseId }) => void prepared.add(`${host} ${leaseId}`),
      started,
      ended: processesEnded,
      stopped: (host, lease) => {
        stopped.add(`${host} ${lease}`);
        if (hosts().get(host)?.running.has(lease) === true)
          violate(
            "stopped is stopped",
            `${lease} runs on ${host}, which has answered an order to stop`,
          );
      },
    },
    ledgerChanged: (ledger, isRecovering) => {
      if (ledger.leases === last) return;
      last = ledger.leases;
      checkLeases(ledger);
      if (!isRecovering) checkCovered(ledger);
    },
    jobEnded: (job, how) => {
      if (ended.has(job)) violate("one end", `${job} ends again: ${how}`);
      ended.set(job, how);
      const known = drawn.get(job);
      if (known === undefined) return;
      const problem = endProblem(known, how, { books, tokens, orders: orders.get(job) });
      if (problem !== undefined) violate("ends as its history allows", `${job}: ${problem}`);
    },
    noteOrder: (job, order) => {
      orders.set(job, (orders.get(job) ?? new Set()).add(order));
      if (order === "hold") held.set(job, highest);
      if (order === "release") held.delete(job);
    },
    violate,
    violation: () => violation,
    endedJobs: () => ended,
    leases: () => tokens.size,
  };
}

const keysOf = (host: HostId, mask: number): readonly string[] => {
  const keys: string[] = [];
  for (let gpu = 0; mask >>> gpu !== 0; gpu += 1)
    if ((mask >>> gpu) % 2 === 1) keys.push(`${host} ${gpu}`);
  return keys;
};

/** Runs that a job may lose to hosts before it gives up. */
const MOST_LOST = 10;

function endProblem(
  { id, spec }: DrawnJob,
  how: string,
  {
    books,
    tokens,
    orders,
  }: {
    readonly books: ReadonlyMap<LeaseId, Books>;
    readonly tokens: ReadonlyMap<LeaseId, { readonly jobId: JobId }>;
    readonly orders: ReadonlySet<string> | undefined;
  },
): string | undefined {
  const leases = [...tokens].filter(([, { jobId }]) => jobId === id).map(([lease]) => lease);
  const isWhole = leases.some((lease) => {
    const book = books.get(lease);
    return book !== undefined && book.hosts.every((host) => book.completed.has(host));
  });
  switch (how) {
    case "completed":
      return isWhole ? undefined : "it has completed, and no gang of it has run to its end";
    case "cancelled":
      return orders?.has("cancel") === true ? undefined : "nobody has cancelled it";
    case "terminated":
      return orders?.has("terminate") === true ? undefined : "nobody has terminated it";
    case "failed": {
      const mayFail =
        spec.deadlineMs !== undefined || leases.length >= Math.min(spec.retry.attempts, MOST_LOST);
      return mayFail ? undefined : `it has failed after ${leases.length} runs`;
    }
    default:
      return `it ends as ${how}`;
  }
}
