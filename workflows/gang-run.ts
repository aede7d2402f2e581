/**
 * @file One run of a gang: `run` on every host of a lease, until all have ended or one reason stops them all.
 *
 * The first host that fails, or a wish to stop (cancellation, deadline, preemption), stops the others; the earliest cause is the
 * reported one. A host whose agent went silent is asked again, at its new address, to adopt the same lease and token;
 * nothing is concluded from silence alone, only from the fleet's word that the host was fenced: then its part has ended, and
 * nobody waits for it. The result names the hosts that could not confirm that nothing runs there.
 * History: 3 events a host and one workflow task for each completion; orders to stop come on top when they are needed.
 */

import {
  ActivityCancellationType,
  CancellationScope,
  condition,
  proxyActivities,
  proxyLocalActivities,
} from "@temporalio/workflow";
import type {
  OrderActivities,
  RunActivities,
  RunOrder,
  RunReport,
  StopReport,
  TaskBatch,
} from "../activities/agent-contract.ts";
import type { JobActivities } from "../activities/control-contract.ts";
import type { HostId } from "../domain/ids.ts";
import type { JobSpec } from "../domain/job.ts";
import type { Outfit } from "../domain/outfit.ts";
import { popCount, type HostGpus } from "../domain/lease.ts";
import type { AgentAddress } from "../scheduling/ledger.ts";
import {
  fencedOff,
  gangEnd,
  isGood,
  neverStarted,
  unconfirmed,
  type GangEnd,
  type HostEnd,
} from "./gang-end.ts";
import type { Grant, PreemptOrder } from "./messages.ts";
import { findingOf } from "./run-finding.ts";

/** How long the hosts of a gang may take to get ready. */
const PREPARE_TIMEOUT_MS = 120_000;
/** An agent says that it is alive three times in this time; all missed are silence. A cluster with a shorter one has its own. */
const HEARTBEAT_TIMEOUT_MS = 60_000;
/** A task that no agent takes for this long has no agent. */
const PICKUP_TIMEOUT_MS = 60_000;
/** Processes without a time limit may run for a year. */
const UNLIMITED_MS = 365 * 24 * 3_600_000;
const ADOPT_PAUSE_MS = 2_000;
/** Asking costs a dozen events; at this pace a job may wait for a silent host for weeks. */
const ADOPT_PAUSE_MAX_MS = 300_000;
/** On top of the graces: how long a host may take to carry out a stop order. */
const STOP_SLACK_MS = 60_000;
const STOP_PICKUP_TIMEOUT_MS = 15_000;
const STOP_ATTEMPTS = 3;
/** An agent that dies while it stops a run is asked no more after this; its successor is. */
const STOP_HEARTBEAT_TIMEOUT_MS = 20_000;

export interface GangRunInput {
  /** The version of the job's logic, see `JOB_RULES`. */
  readonly rules: number;
  readonly jobId: RunOrder["jobId"];
  readonly workflowRunId: string;
  readonly fleetWorkflowId: string;
  readonly spec: JobSpec;
  readonly grant: Grant;
  readonly attempt: number;
  /** Of a job array: the tasks that this run of the lease is for. */
  readonly taskBatch?: TaskBatch;
  /** What was made for this run before its start. */
  readonly outfit?: Outfit;
  /** Told where a host's agent is now, when that is not where the grant says. */
  readonly onAgent?: (host: HostId, agent: AgentAddress) => void;
}

/** What is said from outside while a gang runs. */
export interface StopWish {
  /** Why it should be stopped although nothing failed. */
  reason: "cancelled" | "deadline" | undefined;
  /** The lease that it runs on is wanted for others. */
  preempt?: PreemptOrder | undefined;
  /** Hosts whose part of the lease counts as gone. */
  readonly fenced: Set<HostId>;
}

/** Runs the gang of a grant to its end. Never throws for what happens on hosts. */
export async function runGang(
  input: GangRunInput,
  wish: StopWish,
  onStopping: () => void,
): Promise<GangEnd> {
  const ends = new Map<HostId, HostEnd>();
  const isBad = (): boolean => [...ends.values()].some((end) => !isGood(end));
  const isStopping = (): boolean => isWished(wish) || isBad();

  const agents = await findAgents(input, wish);
  if (agents === undefined) return { end: "stopped", unconfirmedHosts: [], endedAtMs: Date.now() };
  const orders = ordersOf(input, agents);
  const scope = new CancellationScope();
  const running = orders.map(async (order) => {
    const isFenced = (): boolean => wish.fenced.has(order.host);
    ends.set(order.host, await runHost(order, input, { scope, isStopping, isFenced, agents }));
  });
  await condition(() => ends.size === orders.length || isStopping());
  const stopped = new Map<HostId, StopReport | "fenced">();
  if (ends.size < orders.length) {
    onStopping();
    const remaining = orders.filter((order) => !ends.has(order.host));
    const why = wish.reason ?? preemptReason(wish) ?? "another host of the gang failed";
    await Promise.all(
      remaining.map(async (order) => {
        const stopping = stopHost(order, input, { reason: why, agents });
        const answer = await Promise.race([stopping, untilFenced(order.host, wish)]);
        if (answer !== undefined) stopped.set(order.host, answer);
      }),
    );
    scope.cancel();
  }
  await Promise.all(running);
  for (const [host, answer] of stopped) {
    // Whoever watched the run has died; how it ended the host knows all the same.
    const isUnwatched = ends.get(host)?.kind === "unconfirmed";
    if (isUnwatched && answer !== "fenced" && answer.report !== undefined)
      ends.set(host, { kind: "reported", report: answer.report });
  }
  // Nobody waits for what still watches a fenced host; should the host come back, it is told.
  if (wish.fenced.size > 0) scope.cancel();
  return gangEnd(ends, stopped, input.grant.lease.grantedAtMs);
}

const isWished = ({ reason, preempt }: StopWish): boolean =>
  reason !== undefined || preempt !== undefined;

const preemptReason = ({ preempt }: StopWish): string | undefined =>
  preempt === undefined ? undefined : `preempted for ${preempt.forJob}`;

type Agents = ReadonlyMap<HostId, AgentAddress>;

async function untilFenced(host: HostId, { fenced }: StopWish): Promise<"fenced"> {
  await condition(() => fenced.has(host));
  return "fenced";
}

/**
 * The agents of all hosts. A grant names them; one that ended in between is waited for, because its successor can start the
 * gang. Undefined when the wish to stop or a fence comes first: nothing was started.
 */
async function findAgents(
  { grant, fleetWorkflowId, rules }: GangRunInput,
  wish: StopWish,
): Promise<Agents | undefined> {
  const isStopping = (): boolean => isWished(wish) || wish.fenced.size > 0;
  const findHost = hostFinder(rules);
  const agents = new Map(grant.agents.map(({ host, agent }) => [host, agent]));
  for (const { host } of grant.lease.gpus) {
    let pauseMs = ADOPT_PAUSE_MS;
    while (!agents.has(host)) {
      if (isStopping()) return undefined;
      const agent = await findHost(fleetWorkflowId, host);
      if (agent !== null) agents.set(host, agent);
      else await condition(isStopping, pauseMs);
      pauseMs = Math.min(pauseMs * 2, ADOPT_PAUSE_MAX_MS);
    }
  }
  return agents;
}

type FindHost = Pick<JobActivities, "findHost">;
const FIND_HOST = { startToCloseTimeout: "20s" } as const;
/** From these rules on hosts are found by plain activities: several local ones end in another order on replay (docs/decisions/0014). */
const PLAIN_RULES = 2;

const hostFinder = (rules: number): FindHost["findHost"] =>
  (rules >= PLAIN_RULES ? proxyActivities<FindHost> : proxyLocalActivities<FindHost>)(FIND_HOST)
    .findHost;

function ordersOf(input: GangRunInput, agents: Agents): RunOrder[] {
  const { jobId, workflowRunId, spec, grant, attempt, taskBatch, outfit } = input;
  const gang = grant.lease.gpus.map((part) => ({
    ...part,
    address: agents.get(part.host)?.address ?? "",
  }));
  return gang.map(({ host }) => ({
    jobId,
    jobName: spec.name,
    workflowId: jobId,
    workflowRunId,
    leaseId: grant.lease.id,
    token: grant.lease.token,
    holder: holderOf(grant.lease),
    attempt,
    host,
    gang,
    run: spec.run,
    ...(spec.model !== undefined && { model: spec.model }),
    ...(spec.batch !== undefined && { batch: spec.batch }),
    ...(spec.array === undefined && { gpusRequested: spec.gang.gpus }),
    prepareTimeoutMs: PREPARE_TIMEOUT_MS,
    ...(spec.timeLimitMs !== undefined && { timeLimitMs: spec.timeLimitMs }),
    ...(taskBatch !== undefined && { taskBatch }),
    ...(outfit !== undefined && { outfit }),
  }));
}

const holderOf = ({
  runId,
  seq,
  class: jobClass,
  tenant,
  grantedAtMs,
  requestedAtMs,
}: Grant["lease"]): RunOrder["holder"] => ({
  runId,
  seq,
  class: jobClass,
  tenant,
  grantedAtMs,
  requestedAtMs,
});

interface HostRun {
  readonly scope: CancellationScope;
  readonly isStopping: () => boolean;
  readonly isFenced: () => boolean;
  readonly agents: Agents;
}

/**
 * One host's part. Asks a silent host again and again, at its agent's newest address, until it answers or the gang stops.
 * Once a run may have started there, only the host's own word that nothing runs makes it confirmed.
 */
async function runHost(order: RunOrder, input: GangRunInput, run: HostRun): Promise<HostEnd> {
  const { scope, isStopping, isFenced, agents } = run;
  const findHost = hostFinder(input.rules);
  let agent = agents.get(order.host) ?? null;
  let mayRun = false;
  let pauseMs = ADOPT_PAUSE_MS;
  for (;;) {
    if (agent !== null) {
      const at = agent;
      try {
        const report = await Promise.race([
          scope.run(() => runOn(at, order, input)),
          condition(isFenced).then(() => undefined),
        ]);
        return report === undefined ? fencedOff(order.host) : { kind: "reported", report };
      } catch (error) {
        const found = findingOf(error, order.host, isStopping());
        switch (found.means) {
          case "nothing runs":
            return { kind: "refused", cause: found.cause };
          case "never started":
            if (!mayRun) return { kind: "refused", cause: found.cause };
            return { kind: "unconfirmed", cause: found.cause };
          case "nobody took it":
            break;
          case "silent":
            mayRun = true;
            break;
          case "broken":
            return (await stopHost(order, input, { reason: found.cause.message, agents })) ===
              undefined
              ? { kind: "unconfirmed", cause: found.cause }
              : { kind: "refused", cause: found.cause };
        }
      }
    }
    await condition(() => isStopping() || isFenced(), pauseMs);
    if (isFenced()) return fencedOff(order.host);
    if (isStopping()) return mayRun ? unconfirmed(order.host) : neverStarted(order.host);
    pauseMs = Math.min(pauseMs * 2, ADOPT_PAUSE_MAX_MS);
    const found = await findHost(input.fleetWorkflowId, order.host);
    if (found !== null) input.onAgent?.(order.host, found);
    agent = found ?? agent;
  }
}

async function runOn(
  agent: AgentAddress,
  order: RunOrder,
  { spec, grant }: GangRunInput,
): Promise<RunReport> {
  const silenceMs = grant.agents.find(({ host }) => host === order.host)?.silenceMs ?? Infinity;
  const { run } = proxyActivities<RunActivities>({
    taskQueue: agent.runQueue,
    startToCloseTimeout: runMs(spec, order.taskBatch) + PREPARE_TIMEOUT_MS + stopMs(spec),
    scheduleToStartTimeout: PICKUP_TIMEOUT_MS,
    heartbeatTimeout: Math.min(silenceMs, HEARTBEAT_TIMEOUT_MS),
    cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
    retry: { maximumAttempts: 1 },
    summary: summaryOf(order),
  });
  return run(order);
}

/**
 * The host's word that nothing runs there any more; undefined when it did not come. Asks at the grant's address first; an agent
 * that restarted since has another one, so a task that nobody takes is asked again where the fleet says the agent is now.
 */
async function stopHost(
  order: RunOrder,
  input: GangRunInput,
  { reason, agents }: { readonly reason: string; readonly agents: Agents },
): Promise<StopReport | undefined> {
  const findHost = hostFinder(input.rules);
  let agent = agents.get(order.host) ?? null;
  for (let attempt = 1; attempt <= STOP_ATTEMPTS && agent !== null; attempt += 1) {
    const { stop } = proxyActivities<OrderActivities>({
      taskQueue: agent.orderQueue,
      startToCloseTimeout: stopMs(input.spec) + STOP_SLACK_MS,
      scheduleToStartTimeout: STOP_PICKUP_TIMEOUT_MS,
      heartbeatTimeout: STOP_HEARTBEAT_TIMEOUT_MS,
      retry: { maximumAttempts: 2 },
      summary: `stop ${order.leaseId} on ${order.host}: ${reason}`,
    });
    try {
      return await stop({
        jobId: order.jobId,
        host: order.host,
        leaseId: order.leaseId,
        token: order.token,
        isCheckpointFirst: input.spec.run.checkpoint !== undefined,
        reason,
      });
    } catch {
      // Silence is no proof: the host counts as unconfirmed and its GPUs stay taken until it answers.
      agent = (await findHost(input.fleetWorkflowId, order.host)) ?? agent;
    }
  }
  return undefined;
}

/** The longest that the processes may run; each turn of a slot has the time limit to itself, and its own stop. */
function runMs(spec: JobSpec, batch: TaskBatch | undefined): number {
  if (spec.timeLimitMs === undefined) return UNLIMITED_MS;
  if (batch === undefined) return spec.timeLimitMs;
  const turns = Math.ceil(batch.tasks.length / batch.slots);
  return Math.min(UNLIMITED_MS, turns * (spec.timeLimitMs + stopMs(spec)));
}

/** The longest that stopping politely may take: the checkpoint, then the grace before TERM's and KILL's turn. */
const stopMs = (spec: JobSpec): number =>
  (spec.run.checkpoint?.graceMs ?? 0) + 2 * spec.run.graceMs;

function summaryOf({ host, gang, taskBatch }: RunOrder): string {
  if (taskBatch !== undefined) {
    const [first] = taskBatch.tasks;
    const more = taskBatch.tasks.length - 1;
    return `${host}: task ${first}${more > 0 ? ` and ${more} more` : ""}, ${taskBatch.slots} at a time`;
  }
  const mine = gang.find((part) => part.host === host);
  const first = gang
    .slice(
      0,
      gang.findIndex((part) => part.host === host),
    )
    .reduce((sum, part) => sum + gpusOf(part), 0);
  const count = mine === undefined ? 0 : gpusOf(mine);
  const total = gang.reduce((sum, part) => sum + gpusOf(part), 0);
  return `${host}: ${count} of ${total} GPUs, ranks ${first} to ${first + count - 1}`;
}

const gpusOf = (part: HostGpus): number => popCount(part.mask);
