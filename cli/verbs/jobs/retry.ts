/** @file `orbweaver retry JOB`: runs an ended job or array again as a new job; tasks of an array that has not ended, inside it. */

import type { Command } from "commander";
import type { JobHandle } from "../../../client/index.ts";
import { OrbweaverError } from "../../../domain/values/failure.ts";
import {
  addServiceOptions,
  type ConnectionOptionValues,
} from "../../command/connection-options.ts";
import { forEachJob, type JobChange } from "../../command/each-job.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import { taskAnswer } from "../../command/task-table.ts";

interface RetryValues extends ConnectionOptionValues {
  readonly task?: string;
  readonly key?: string;
  readonly fromCheckpoint?: true;
  readonly json?: boolean;
}

export function retryVerb(context: CommandContext): Command {
  const verb = context
    .verb("retry")
    .summary("run ended jobs, or tasks of a job array, again")
    .description(
      "Submits the file of a job that has ended as a new job, signed by you; of an array, its tasks that failed, and of a cancelled array those that did not complete. The new id is the former one with -r1, -r2 and so on, so the same retry twice starts one job. A job with run.checkpoint.dir goes on from its newest checkpoint; with --from-checkpoint one whose checkpoints lie on its hosts does, too, and waits for those hosts.\n\nOf an array that has not ended, --task queues ended tasks again inside it, with a fresh count of attempts.",
    )
    .argument("<job>", "job id")
    .option("-t, --task <tasks>", "of an array: these tasks, e.g. 3,7-9")
    .option("-k, --key <key>", "id of the new job")
    .option(
      "--from-checkpoint",
      "go on from the newest checkpoint of the former job, and refuse where there is none",
    )
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver retry train-7", "an ended job again, as train-7-r1"],
        ["orbweaver retry train-7 --from-checkpoint", "the same, but never from its beginning"],
        ["orbweaver retry sweep-3", "the failed tasks of an ended array"],
        ["orbweaver retry sweep-3 --task 3,7-9", "run four tasks again"],
      ]),
    )
    .action(async (jobId: string, values: RetryValues) => {
      await forEachJob(context, { jobIds: [jobId], values }, (job) => retry(context, job, values));
    });
  return addServiceOptions(verb);
}

async function retry(
  context: CommandContext,
  job: JobHandle,
  { task, key, fromCheckpoint }: RetryValues,
): Promise<string | JobChange> {
  const { outcome } = await job.ending();
  if (fromCheckpoint !== undefined && outcome === undefined && task !== undefined)
    throw new OrbweaverError(
      "BAD_INPUT",
      "tasks that run again inside their array find their checkpoints by themselves. Leave --from-checkpoint out.",
    );
  if (outcome === undefined && task !== undefined) {
    const done = { jobId: job.jobId, answer: await job.retryTasks(task) };
    return taskAnswer(context, done, { done: "to run again", left: "had not ended" });
  }
  const { jobId, isNew, tasks } = await job.rerun({
    ...(task !== undefined && { tasks: task }),
    ...(key !== undefined && { idempotencyKey: key }),
    ...(fromCheckpoint !== undefined && { fromCheckpoint }),
    onUnsigned: (why) => {
      context.say(`the job is not signed, so only hosts that trust the namespace run it: ${why}`);
    },
  });
  if (!isNew) context.say(`${jobId} had been submitted before; nothing was started`);
  return {
    state: `again as ${jobId}${tasks === undefined ? "" : `, tasks ${tasks}`}`,
    more: { again: { jobId, isNew, ...(tasks !== undefined && { tasks }) } },
  };
}
