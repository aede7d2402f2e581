/** @file Orders for batches of array tasks, and what is asked of their reports. */

import type { RunOrder, RunReport, TaskBatch, TaskEnd } from "../../protocol/agent-contract.ts";
import { nodeSystem } from "../../agent/system/node-system.ts";
import { batchDir, launchFiles, type LaunchFiles } from "../../agent/folder/launch-files.ts";
import { readTurns, type TaskTurn } from "../../agent/folder/slot-journal.ts";
import type { RunSpec } from "../../domain/job/job.ts";
import { HOST, orderOf, queryOf, type TestAgent } from "./fixture.ts";

/** A batch of the tasks on GPUs 0 to slots·gpusPerTask − 1 that runs a shell line for each. */
export function batchOf(
  line: string,
  over: Partial<TaskBatch> & {
    readonly run?: Partial<RunSpec>;
    readonly order?: Partial<Omit<RunOrder, "run">>;
  } = {},
): RunOrder & { readonly taskBatch: TaskBatch } {
  const { run, order, ...batch } = over;
  const taskBatch: TaskBatch = {
    seq: 1,
    tasks: [0, 1, 2],
    slots: 2,
    gpusPerTask: 1,
    count: 10,
    ...batch,
  };
  const mask = 2 ** (taskBatch.slots * taskBatch.gpusPerTask) - 1;
  const gang = [{ host: HOST, mask, address: "10.0.0.1" }];
  return { ...orderOf(line, { gang, ...order, ...(run !== undefined && { run }) }), taskBatch };
}

export const tasksUpTo = (count: number): readonly number[] => [...Array(count).keys()];

export const filesOf = (agent: Pick<TestAgent, "host">, order: RunOrder): LaunchFiles =>
  launchFiles(batchDir(agent.host.layout.leaseDir(order.leaseId), order.taskBatch?.seq ?? 0));

export const turnOf = (agent: TestAgent, order: RunOrder, task: number): TaskTurn | undefined =>
  readTurns(nodeSystem.files, filesOf(agent, order).journal).get(task);

export const taskOutput = async (
  { orders }: TestAgent,
  order: RunOrder,
  task: number,
  rank = 0,
): Promise<string> => (await orders.readLogs(queryOf(order, { task, rank }))).text;

/** `3:completed 4:failed` */
export const endsOf = ({ tasks }: RunReport): string =>
  (tasks ?? []).map(({ task, end }) => `${task}:${end}`).join(" ");

export const endOf = ({ tasks }: RunReport, task: number): TaskEnd | undefined =>
  tasks?.find((end) => end.task === task);

export const stopTasksOf = (order: RunOrder, ...tasks: readonly number[]) => ({
  jobId: order.jobId,
  host: order.host,
  leaseId: order.leaseId,
  token: order.token,
  batchSeq: order.taskBatch?.seq ?? 0,
  tasks,
  reason: "not wanted any more",
});
