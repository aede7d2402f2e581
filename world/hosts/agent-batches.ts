/** @file Orders about tasks of a batch, as `agent/orders/stop-tasks.ts` carries them out. */

import type { StopTasksOrder, StopTasksReport } from "../../protocol/agent-contract.ts";
import { sleep, type Task } from "../kernel/process.ts";
import type { ActivityEnd } from "../temporal/activity.ts";
import type { Agents } from "./agents.ts";

const LOOK_MS = 250;

/** Done when each named task of the batch has had its turn, or when the launch is over or has not come. */
export function* stopTasksOn(
  agents: Agents,
  { host: id, leaseId, batchSeq, tasks }: StopTasksOrder,
): Task<ActivityEnd<StopTasksReport>> {
  const host = agents.hosts.get(id);
  if (host === undefined) return { kind: "failed", code: "HOST_REFUSED", isFinal: true };
  const launch = host.launches.get(`${leaseId}#${batchSeq}`);
  if (launch === undefined) return { kind: "done", value: { host: id, stopped: [] } };
  if (!host.disk.takesFiles()) return { kind: "failed", code: "UNAVAILABLE" };
  for (const task of tasks) {
    launch.unwanted.add(task);
    host.agent?.spawn(host.killTask(launch, task));
  }
  const named = launch.order.taskBatch?.tasks ?? [];
  const wanted = tasks.filter((task) => named.includes(task));
  const isOver = (task: number): boolean => {
    const turn = launch.turns.get(task);
    return turn !== undefined && (turn.startedAtMs === undefined || turn.end !== undefined);
  };
  while (launch.phase === "started" && !wanted.every(isOver))
    yield* sleep(agents.site().kernel, LOOK_MS);
  const stopped = tasks.filter((task) => launch.turns.get(task)?.startedAtMs !== undefined);
  return { kind: "done", value: { host: id, stopped } };
}
