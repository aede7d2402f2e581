/**
 * @file Finds the output of a rank, or that of a rank of an array task, and whether more may come.
 *
 * A task's output is the lease's, whichever batch ran it: a task that is run again on the same lease appends to it.
 * More may come until the newest batch that has the task is over. An unknown rank or task is refused with those that the host knows.
 */

import type { LogQuery } from "../../protocol/agent-contract.ts";
import { batchDirsOf, newestOrder, storedOrders, type AgentHost } from "../runs/agent-host.ts";
import { failure } from "../system/failures.ts";
import { launchFiles, rankDir, taskDir } from "../folder/launch-files.ts";
import type { LaunchFiles, LaunchPlan, RankPlan, StoredOrder } from "../folder/launch-files.ts";
import { FINAL_KINDS, phaseOf } from "../runs/local-run.ts";
import { readJson } from "../folder/json-files.ts";
import type { System } from "../ports/system.ts";
import { readTurns } from "../folder/slot-journal.ts";

export interface RankOutput {
  /** Made with the first output. */
  readonly dir: string;
  hasEnded(): boolean;
}

/** Throws RUN_UNKNOWN. */
export function findOutput(host: AgentHost, query: LogQuery): RankOutput {
  const { system } = host;
  const leaseDir = host.layout.leaseDir(query.leaseId);
  // Each is the name of a folder, and a launch that was refused has no plan to look them up in.
  if (![query.rank, query.task ?? 0].every(Number.isSafeInteger))
    throw failure("RUN_UNKNOWN", `a rank or a task of ${query.jobId} is no whole number`);
  const newest = newestOrder(host, query.leaseId);
  if (newest?.jobId !== query.jobId) {
    throw failure(
      "RUN_UNKNOWN",
      `${query.host} knows no run of ${query.jobId} under ${query.leaseId}; its output may have been removed for its age`,
    );
  }
  if (query.task !== undefined) return taskOutput(host, query, { task: query.task, leaseDir });
  if (newest.taskBatch !== undefined) {
    throw failure(
      "RUN_UNKNOWN",
      `${query.jobId} is a job array: ${namesOf(host, query)}. Name one of them.`,
    );
  }
  const files = launchFiles(leaseDir);
  const plan = readJson<LaunchPlan>(system.files, files.plan);
  if (plan !== undefined) checkRank(query, plan.ranks);
  return { dir: rankDir(leaseDir, query.rank), hasEnded: () => isFinal(system, files) };
}

function taskOutput(
  host: AgentHost,
  query: LogQuery,
  { task, leaseDir }: { readonly task: number; readonly leaseDir: string },
): RankOutput {
  const { system } = host;
  const files = batchDirsOf(system.files, leaseDir)
    .map(launchFiles)
    .find((batch) => {
      const order = readJson<StoredOrder>(system.files, batch.order)?.order;
      return order?.taskBatch?.tasks.includes(task) === true;
    });
  if (files === undefined) {
    const what = `${query.host} was not given task ${task} of ${query.jobId} under ${query.leaseId}`;
    throw failure("RUN_UNKNOWN", `${what}: ${namesOf(host, query)}.`);
  }
  const plan = readJson<LaunchPlan>(system.files, files.plan);
  if (plan?.batch !== undefined) checkRank(query, plan.batch.slots[0] ?? []);
  return {
    dir: rankDir(taskDir(leaseDir, task), query.rank),
    hasEnded: () =>
      isFinal(system, files) || readTurns(system.files, files.journal).get(task)?.isOver === true,
  };
}

function checkRank({ rank, task, jobId, host }: LogQuery, plans: readonly RankPlan[]): void {
  if (plans.some((plan) => plan.rank === rank)) return;
  const of = task === undefined ? jobId : `task ${task} of ${jobId}`;
  const ranks = plans.map((plan) => plan.rank).join(", ");
  throw failure("RUN_UNKNOWN", `rank ${rank} of ${of} does not run on ${host}; ranks ${ranks} do`);
}

/** The tasks that a lease was given, the newest batch first, as far as they can be read at a glance. */
function namesOf(host: AgentHost, { leaseId }: LogQuery): string {
  const tasks = [...storedOrders(host, leaseId)].flatMap(({ taskBatch }) => taskBatch?.tasks ?? []);
  const most = 20;
  if (tasks.length === 0) return "it runs no array tasks";
  const named = tasks.slice(0, most).join(", ");
  return `the lease was given tasks ${named}${tasks.length > most ? ` and ${tasks.length - most} more` : ""}`;
}

const isFinal = (system: System, files: LaunchFiles): boolean =>
  FINAL_KINDS.some((kind) => kind === phaseOf({ files, system }).kind);
