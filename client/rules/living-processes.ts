/**
 * @file The workers and agents of a fleet that are alive, with the newest rules that each knows, from the pollers of their task queues.
 *
 * A poller names its rules in its identity (`protocol/worker-identity.ts`); one that does not is of a release before rules 2. The server
 * remembers a poller for minutes, so one counts as alive while its last poll may be open. A worker that has said its end, and a process
 * that the caller sees to be gone, count as ended.
 * Cost: two calls for each task queue of the control plane, and one for each agent.
 */

import type { Client } from "@temporalio/client";
import proto from "@temporalio/proto";
import { CONTROL_TASK_QUEUES } from "../../protocol/names.ts";
import { parseIdentity, type WorkerIdentity } from "../../protocol/worker-identity.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import { REGISTERS_QUEUE } from "./routing.ts";

const { TASK_QUEUE_TYPE_WORKFLOW, TASK_QUEUE_TYPE_ACTIVITY } =
  proto.temporal.api.enums.v1.TaskQueueType;
type QueueKind = typeof TASK_QUEUE_TYPE_WORKFLOW | typeof TASK_QUEUE_TYPE_ACTIVITY;

export interface FleetProcess {
  /** As Temporal shows it. */
  readonly identity: string;
  readonly taskQueue: string;
  /** The newest rules that it knows. */
  readonly rules: number;
  readonly lastPollMs: number;
}

export interface ProcessSearch {
  readonly nowMs: number;
  /** Whether the process is known to have ended; by default no one knows. */
  readonly isGone?: (identity: WorkerIdentity) => boolean;
}

/** A poll lasts a minute at most, and the next one follows at once. */
export const POLL_OPEN_MS = 75_000;
/** Calls at a time. */
const AT_ONCE = 16;

/** Every process that polls for the control plane or for an agent of the fleet, once for each task queue. */
export async function livingProcesses(
  client: Client,
  { hosts }: Pick<Ledger, "hosts">,
  { nowMs, isGone = () => false }: ProcessSearch,
): Promise<readonly FleetProcess[]> {
  const agentQueues = new Set(
    [...hosts.values()].flatMap(({ agent }) => (agent === undefined ? [] : [agent.orderQueue])),
  );
  const queues: readonly (readonly [string, QueueKind])[] = [
    ...CONTROL_TASK_QUEUES.flatMap((queue) => [
      [queue, TASK_QUEUE_TYPE_WORKFLOW] as const,
      [queue, TASK_QUEUE_TYPE_ACTIVITY] as const,
    ]),
    // An agent's two queues have the same poller.
    ...[...agentQueues].map((queue) => [queue, TASK_QUEUE_TYPE_ACTIVITY] as const),
  ];
  const [polls, ended] = await Promise.all([
    inBatches(queues, ([queue, kind]) => pollersOf(client, queue, kind)),
    endedWorkers(client),
  ]);
  const living = new Map<string, FleetProcess>();
  for (const poll of polls.flat()) {
    const key = keyOf(poll);
    const identity = parseIdentity(poll.identity);
    const isOver =
      nowMs - poll.lastPollMs > POLL_OPEN_MS ||
      ended.has(key) ||
      (identity !== undefined && isGone(identity));
    const former = living.get(key);
    if (!isOver && (former === undefined || former.lastPollMs < poll.lastPollMs))
      living.set(key, poll);
  }
  return [...living.values()];
}

const keyOf = ({ identity, taskQueue }: Pick<FleetProcess, "identity" | "taskQueue">): string =>
  `${identity} ${taskQueue}`;

async function pollersOf(
  client: Client,
  taskQueue: string,
  taskQueueType: QueueKind,
): Promise<readonly FleetProcess[]> {
  const { pollers } = await client.workflowService.describeTaskQueue({
    namespace: client.options.namespace,
    taskQueue: { name: taskQueue },
    taskQueueType,
  });
  return (pollers ?? []).flatMap(({ identity, lastAccessTime }) => {
    const text = identity ?? "";
    // A client that registers a queue polls once, and takes no task.
    if (text === REGISTERS_QUEUE) return [];
    const rules = parseIdentity(text)?.rules ?? 1;
    return [
      {
        identity: text,
        taskQueue,
        rules,
        lastPollMs: Number(lastAccessTime?.seconds ?? 0) * 1_000,
      },
    ];
  });
}

const { WORKER_STATUS_SHUTTING_DOWN, WORKER_STATUS_SHUTDOWN } =
  proto.temporal.api.enums.v1.WorkerStatus;

/** Workers that have told the server of their end; none where the server keeps no list of workers. */
async function endedWorkers(client: Client): Promise<ReadonlySet<string>> {
  const ended = new Set<string>();
  const running = new Set<string>();
  let nextPageToken: Uint8Array | undefined;
  do {
    let page;
    try {
      page = await client.workflowService.listWorkers({
        namespace: client.options.namespace,
        ...(nextPageToken !== undefined && { nextPageToken }),
      });
    } catch {
      return new Set();
    }
    for (const { workerIdentity, taskQueue, status } of page.workers ?? []) {
      const isOver = status === WORKER_STATUS_SHUTTING_DOWN || status === WORKER_STATUS_SHUTDOWN;
      const key = keyOf({ identity: workerIdentity ?? "", taskQueue: taskQueue ?? "" });
      (isOver ? ended : running).add(key);
    }
    nextPageToken = page.nextPageToken ?? undefined;
  } while (nextPageToken !== undefined && nextPageToken.length > 0);
  return new Set([...ended].filter((key) => !running.has(key)));
}

async function inBatches<In, Out>(
  inputs: readonly In[],
  call: (input: In) => Promise<Out>,
): Promise<readonly Out[]> {
  const outputs: Out[] = [];
  for (let at = 0; at < inputs.length; at += AT_ONCE)
    outputs.push(...(await Promise.all(inputs.slice(at, at + AT_ONCE).map(call))));
  return outputs;
}
