/**
 * @file What must hold in a world, judged after each event by its own books: it shares no code with the machines and believes none of them.
 *
 * It sees the truth about processes, the ledgers that fleets keep, the ends of jobs and what their users were promised. The first violation
 * ends the world. Cost: O(leases + processes) for an event that changes a ledger, O(hosts of the gang) for a start, else nothing.
 */

import type { HostId, JobId, LeaseId } from "../../domain/values/ids.ts";
import type { RunOrder } from "../../protocol/agent-contract.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import { keyOf } from "../hosts/disk.ts";
import type { Host } from "../hosts/host.ts";
import type { Witness } from "../hosts/witness.ts";
import { createGrantLaws } from "./grant-laws.ts";
import {
  endProblem,
  openBook,
  taskBookOf,
  unmetDependency,
  type Book,
  type TaskBook,
} from "./job-laws.ts";
import type { Calm } from "./prompt-laws.ts";
import { createWordLaws, type WordLaws } from "./word-laws.ts";
import { STRANGE_BATCH, type DrawnJob } from "../settings.ts";

export interface Violation {
  readonly law: string;
  readonly message: string;
  readonly atMs: number;
}

export interface Checker {
  readonly witness: Witness;
  /** `isRecovering`: the fleet is finding out what a lost ledger held. */
  readonly ledgerChanged: (ledger: Ledger, isRecovering: boolean) => void;
  /** What its followers are told, before its workflow closes; `ageMs`: of its run, by the server's clock. */
  readonly jobDecided: (job: JobId, how: string, ageMs: number) => void;
  readonly jobEnded: (job: JobId, how: string) => void;
  /** What its user, or an operator, has done to a job; `hold` and `release` once they were acknowledged. */
  readonly noteOrder: (job: JobId, order: JobOrder) => void;
  readonly noteRetry: (job: JobId, tasks: readonly number[]) => void;
  /** Somebody cancels tasks; to be called once that was acknowledged. A task that was to run again meanwhile may run. */
  readonly noteCancellation: (job: JobId, tasks: readonly number[]) => () => void;
  readonly jobReset: WordLaws["jobReset"];
  readonly runBegan: WordLaws["runBegan"];
  readonly called: WordLaws["called"];
  readonly lobbyTold: WordLaws["lobbyTold"];
  readonly fleetTold: WordLaws["fleetTold"];
  readonly violate: (law: string, message: string) => void;
  readonly violation: () => Violation | undefined;
  readonly endedJobs: () => ReadonlyMap<JobId, string>;
  readonly leases: () => number;
}

/** `strange-batch`: a stranger's, while the array was open. */
export type JobOrder =
  "cancel" | "terminate" | "reset" | "hold" | "release" | "deadline" | "strange-batch";

/** A host that has taken it cannot know that its array gives no batch any more. */
const isOfStranger = ({ taskBatch }: RunOrder, orders?: ReadonlySet<string>): boolean =>
  (taskBatch?.seq ?? 0) >= STRANGE_BATCH && orders?.has("strange-batch") === true;

export function createChecker(
  { nowMs, calmAtMs, heardAtMs }: Calm,
  hosts: () => ReadonlyMap<HostId, Host>,
  jobs: readonly DrawnJob[],
): Checker {
  let violation: Violation | undefined;
  /** Which launch's processes a GPU has, by `host gpu`. */
  const onGpu = new Map<string, string>();
  /** By launch. */
  const books = new Map<string, Book>();
  const tasks = new Map<JobId, Map<number, TaskBook>>();
  const prepared = new Set<string>();
  const stopped = new Set<string>();
  /** The highest token by the time when the hold was acknowledged: what a host starts under an earlier one was its before. */
  const held = new Map<JobId, number>();
  const orders = new Map<JobId, Set<string>>();
  const ended = new Map<JobId, string>();
  const decided = new Map<JobId, Set<string>>();
  const tokens = new Map<LeaseId, { readonly jobId: JobId; readonly token: number }>();
  const drawn = new Map<string, DrawnJob>(jobs.map((job) => [job.id, job]));
  /** It has got its first GPUs. */
  const hasStarted = (job: string): boolean =>
    [...tokens.values()].some(({ jobId }) => jobId === job);
  const words = createWordLaws({ nowMs, calmAtMs, heardAtMs }, violate);
  let highest = 0;
  let last: Ledger["leases"] | undefined;
  const grants = createGrantLaws(violate);

  function violate(law: string, message: string): void {
    violation ??= { law, message, atMs: nowMs() };
  }

  function started(host: HostId, order: RunOrder): void {
    const { leaseId, jobId, gang } = order;
    const launch = keyOf(order);
    const mask = gang.find((part) => part.host === host)?.mask ?? 0;
    for (const key of keysOf(host, mask)) {
      const other = onGpu.get(key);
      if (other !== undefined)
        violate("one lease a GPU", `${launch} starts on ${key} beside ${other}`);
      onGpu.set(key, launch);
    }
    const book = books.get(launch) ?? openBook(order);
    books.set(launch, book);
    if (book.started.has(host)) violate("started once", `${launch} starts on ${host} again`);
    book.started.add(host);
    for (const part of gang)
      if (part.host !== host && !prepared.has(`${part.host} ${launch}`))
        violate("whole gangs", `${launch} starts on ${host}, and ${part.host} is not prepared`);
    if (stopped.has(`${host} ${leaseId}`))
      violate(
        "stopped is stopped",
        `${launch} starts on ${host} after an order to stop was answered`,
      );
    if (order.token > (held.get(jobId) ?? Infinity))
      violate("held jobs wait", `${jobId} starts on ${host} although it is held`);
    const end = ended.get(jobId);
    if (end !== undefined && end !== "terminated" && !isOfStranger(order, orders.get(jobId)))
      violate("ended jobs rest", `${jobId} starts on ${host} although it has ${end}`);
    const spec = drawn.get(jobId)?.spec;
    const unmet = spec && unmetDependency(spec, decided, hasStarted);
    if (unmet !== undefined) violate("followers wait", `${jobId} starts on ${host}: ${unmet}`);
  }

  function processesEnded(host: HostId, order: RunOrder, how: string): void {
    const launch = keyOf(order);
    const mask = order.gang.find((part) => part.host === host)?.mask ?? 0;
    for (const key of keysOf(host, mask)) if (onGpu.get(key) === launch) onGpu.delete(key);
    if (how === "completed") books.get(launch)?.completed.add(host);
    if (how === "failed") books.get(launch)?.failed.add(host);
  }

  /** What it has promised is for its fleet to know. */
  function unlearnt(host: HostId): void {
    for (const key of [...stopped]) if (key.startsWith(`${host} `)) stopped.delete(key);
  }

  const taskOf = (job: JobId, task: number): TaskBook => taskBookOf(tasks, job, task);

  function taskStarted(host: HostId, order: RunOrder, task: number): void {
    const book = taskOf(order.jobId, task);
    const launch = `${host} ${keyOf(order)}`;
    if (book.launches.has(launch))
      violate("started once", `task ${task} of ${launch} starts again`);
    book.launches.add(launch);
    if (order.token > book.cancelledAt)
      violate("cancelled tasks rest", `task ${task} of ${order.jobId} starts on ${host}`);
  }

  function checkLeases({ leases, nextToken }: Ledger): void {
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
        grants.granted(lease, gpusOf.get(lease.tenant) ?? 0);
      } else if (known.jobId !== jobId || known.token !== token)
        violate("tokens grow", `${id} of ${jobId} was ${known.jobId}'s`);
      if (token >= nextToken)
        violate("tokens grow", `${id} is not below the next token ${nextToken}`);
    }
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
        for (const each of tasks.values())
          for (const { launches } of each.values())
            for (const launch of [...launches])
              if (launch.startsWith(`${host} `)) launches.delete(launch);
        unlearnt(host);
      },
      unlearnt,
      lost: (host, launch) => {
        books.get(launch)?.started.delete(host);
        forgetLaunch(tasks, `${host} ${launch}`);
      },
      loaded: (host, { revoked }) => {
        for (const lease of stoppedOn(stopped, host)) {
          const { token } = tokens.get(lease) ?? {};
          if (token !== undefined && !revoked.has(token))
            violate("promises last", `${host} has forgotten that it stopped ${lease}`);
        }
      },
      cutOff: words.cutOff,
      prepared: (host, order) => void prepared.add(`${host} ${keyOf(order)}`),
      started,
      ended: processesEnded,
      taskStarted,
      taskEnded: (_host, { order, task }, how) => {
        const book = taskOf(order.jobId, task);
        if (how === "completed") book.completed += 1;
        if (how === "failed") book.failed += 1;
      },
      stopped: (host, lease) => {
        stopped.add(`${host} ${lease}`);
        const { running } = hosts().get(host) ?? {};
        if ([...(running?.values() ?? [])].some((order) => order.leaseId === lease))
          violate(
            "stopped is stopped",
            `${lease} runs on ${host}, which has answered an order to stop`,
          );
      },
    },
    jobReset: words.jobReset,
    runBegan: words.runBegan,
    called: words.called,
    fleetTold: words.fleetTold,
    lobbyTold: words.lobbyTold,
    ledgerChanged: (ledger, isRecovering) => {
      words.ledgerChanged(ledger, isRecovering);
      grants.changed(ledger);
      if (ledger.leases === last) return;
      last = ledger.leases;
      checkLeases(ledger);
      if (!isRecovering) checkCovered(ledger);
    },
    jobDecided: (job, how, ageMs) => {
      const { deadlineMs } = drawn.get(job)?.spec ?? {};
      const isNews = decided.get(job)?.has(how) !== true;
      if (isNews && deadlineMs !== undefined && orders.get(job)?.has("deadline") !== true)
        words.endedBy(job, nowMs() - ageMs + deadlineMs);
      decided.set(job, (decided.get(job) ?? new Set()).add(how));
    },
    jobEnded: (job, how) => {
      if (ended.has(job)) violate("one end", `${job} ends again: ${how}`);
      ended.set(job, how);
      words.jobEnded(job, { token: highest, how });
      decided.set(job, (decided.get(job) ?? new Set()).add(how));
      const known = drawn.get(job);
      if (known === undefined) return;
      const leases = new Set([...tokens].flatMap(([id, of]) => (of.jobId === job ? [id] : [])));
      const problem = endProblem(known, how, {
        runs: [...books.values()].filter(({ leaseId }) => leases.has(leaseId)),
        leases: leases.size,
        tasks: tasks.get(job) ?? new Map(),
        orders: orders.get(job) ?? new Set(),
        decided,
      });
      if (problem !== undefined) violate("ends as its history allows", `${job}: ${problem}`);
    },
    noteOrder: (job, order) => {
      orders.set(job, (orders.get(job) ?? new Set()).add(order));
      if (order === "hold") held.set(job, highest);
      if (order === "release") held.delete(job);
      // Its new run may refuse what this one has taken.
      if (order !== "reset") return;
      held.delete(job);
      for (const book of tasks.get(job)?.values() ?? []) book.cancelledAt = Infinity;
    },
    noteRetry: (job, named) => {
      orders.set(job, (orders.get(job) ?? new Set()).add("retry-tasks"));
      for (const task of named) {
        const book = taskOf(job, task);
        book.cancelledAt = Infinity;
        book.retries += 1;
      }
    },
    noteCancellation: (job, named) => {
      orders.set(job, (orders.get(job) ?? new Set()).add("cancel-tasks"));
      const sent = new Map(named.map((task) => [task, taskOf(job, task).retries]));
      return () => {
        for (const [task, retries] of sent)
          if (taskOf(job, task).retries === retries) taskOf(job, task).cancelledAt = highest;
      };
    },
    violate,
    violation: () => violation,
    endedJobs: () => ended,
    leases: () => tokens.size,
  };
}

/** The leases of which a host has answered that nothing runs there any more. */
const stoppedOn = (stopped: ReadonlySet<string>, host: HostId): readonly LeaseId[] =>
  [...stopped].flatMap((key) => {
    const [at, lease] = key.split(" ");
    return at === host ? [lease as LeaseId] : []; // as put there
  });

function forgetLaunch(
  tasks: ReadonlyMap<JobId, ReadonlyMap<number, TaskBook>>,
  launch: string,
): void {
  for (const each of tasks.values())
    for (const { launches } of each.values()) launches.delete(launch);
}

const keysOf = (host: HostId, mask: number): readonly string[] => {
  const keys: string[] = [];
  for (let gpu = 0; mask >>> gpu !== 0; gpu += 1)
    if ((mask >>> gpu) % 2 === 1) keys.push(`${host} ${gpu}`);
  return keys;
};
