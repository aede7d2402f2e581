/** @file `orbweaver submit`: jobs from files, from standard input, or from flags and a command line; flags override the file. */

import type { Command } from "commander";
import {
  readJob,
  sendInOrder,
  type FleetClient,
  type JobHandle,
  type JobOutcome,
  type Submitted,
} from "../../../client/index.ts";
import { OrbweaverError } from "../../../domain/values/failure.ts";
import {
  addServiceOptions,
  type ConnectionOptionValues,
} from "../../command/connection-options.ts";
import {
  EXIT,
  EXIT_CODE_HELP,
  WAIT_EXIT_CODE_HELP,
  NEVER_EXIT_CODE_HELP,
} from "../../terminal/exit-code.ts";
import type { JobFlags } from "../../command/job-flags.ts";
import { jobsToSubmit, type JobSource } from "../../command/jobs-to-submit.ts";
import { endAsJob, followJob } from "../../command/job-follower.ts";
import { withPinnedImage } from "../../command/pinned-image.ts";
import { afterItsNamesakes } from "../../command/singleton.ts";
import { checkCronFlags, submitCron } from "../../command/submit-cron.ts";
import { submitJob } from "../../command/submit-job.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import { outsidersOf, withIds } from "../../command/job-documents.ts";
import { addJobOptions } from "../../command/job-options.ts";

interface SubmitValues extends ConnectionOptionValues, JobFlags {
  readonly file?: readonly string[];
  readonly key?: string;
  readonly wait?: boolean;
  readonly follow?: boolean;
  readonly json?: boolean;
  readonly whatIf?: boolean;
  readonly pin: boolean;
  readonly singleton?: boolean;
  readonly cron?: string;
  readonly timeZone?: string;
  readonly overlap?: string;
}

export function submitVerb(context: CommandContext): Command {
  const verb = addJobOptions(context.verb("submit"))
    .summary("submit jobs")
    .description(
      "Submits one job for each file (`-` reads standard input; a file may have several jobs, divided by `---`, and a job may wait for an earlier one by its name), or one job from the flags and the command line after `--`. Flags override the values in the file. A script with #SBATCH lines is read as sbatch does, and options without a counterpart are named. Prints the job's id.",
    )
    .argument("[files...]", "job files")
    .usage("[options] [files...] [-- command...]")
    .option("-k, --key <key>", "id of the job; submitting the same key twice starts only one job")
    .option(
      "-w, --wait",
      "wait until the job has ended, and show its output as it comes; exit with the job's own status",
    )
    .option("-f, --follow", "the same as --wait")
    .option(
      "--file <file>",
      "a job file, as an argument names it; repeatable",
      (file: string, former: readonly string[] = []) => [...former, file],
    )
    .option(
      "--what-if",
      "submit nothing; show where and when the job would start, and which jobs it would preempt",
    )
    .option(
      "--no-pin",
      "leave the tag of an image as it is written, although podman or docker here knows its digest",
    )
    .option(
      "--singleton",
      "wait for the end of your other jobs of the same name that wait or run now",
    )
    .option(
      "--cron <times>",
      "submit it at these times, as in cron: minute hour day month weekday; prints the schedule's id (`orbweaver cron`)",
    )
    .option("--time-zone <zone>", "with --cron: their time zone (default: this machine's)")
    .option(
      "--overlap <what>",
      "with --cron: while a job of before waits or runs, skip this time, queue behind it, allow both, or replace it (default: skip)",
    )
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd(
        [
          ["orbweaver submit train.yaml", "one job from a file"],
          [
            "orbweaver submit --gpus 8 --time-limit 2h -- python train.py --lr 3e-4",
            "one job from a command line",
          ],
          ["orbweaver submit -f train.yaml --gpus 4", "a file with fewer GPUs, and its output"],
          ["orbweaver submit --gpus 1 --array 1000 --parallel 50 -- ./sweep.sh", "a job array"],
          [
            "orbweaver submit --fleets us,ap --patience 5m train.yaml",
            "let other fleets run the job",
          ],
          [
            "orbweaver submit --after train-7k2m1x --gpus 1 -- ./evaluate.sh",
            "run it once another job has completed",
          ],
          [
            "orbweaver submit --group nightly-12 steps.yaml",
            "several jobs of one file, as a group",
          ],
          [
            "orbweaver submit --singleton --name sync --gpus 1 -- ./sync.sh",
            "once your jobs named sync have ended",
          ],
          [
            "orbweaver submit --sync --gpus 8 -- python train.py",
            "send this folder to hosts that do not have it",
          ],
          [
            'orbweaver submit --cron "0 3 * * *" --key nightly nightly.yaml',
            "every night at three",
          ],
          ["orbweaver submit train.sbatch", "a batch script of Slurm"],
          ["orbweaver submit --what-if train.yaml", "show where and when the job would start"],
          [
            "orbweaver submit --queue-anyway large.yaml",
            "for hosts that are still to come; else it is refused",
          ],
          ["orbweaver submit --key nightly-12 train.yaml", "safe to repeat after a lost answer"],
        ],
        `${EXIT_CODE_HELP}\n${NEVER_EXIT_CODE_HELP}\n${WAIT_EXIT_CODE_HELP}`,
      ),
    )
    .action(async (named: readonly string[], { file = [], ...values }: SubmitValues) => {
      const files = [...file, ...named];
      // With several files, nothing is submitted while one has a problem, and all problems are reported at once.
      checkCronFlags(values);
      const jobs = await jobsToSubmit(context, files, placed(values));
      if (values.whatIf === true) await ask(context, jobs, values);
      else if (values.cron !== undefined) await onSchedule(context, jobs, values);
      else await submitAll(context, jobs, values);
    });
  return addServiceOptions(verb);
}

/** What-if sends nothing, and its answer does not depend on the folder. */
const placed = (values: SubmitValues): SubmitValues =>
  values.whatIf === true && values.sync === true
    ? { ...values, sync: false, workdir: values.workdir ?? "." }
    : values;

async function ask(
  context: CommandContext,
  jobs: readonly JobSource[],
  values: SubmitValues,
): Promise<void> {
  if (values.wait === true || values.follow === true) {
    throw new OrbweaverError(
      "BAD_INPUT",
      "--what-if submits nothing that --wait or --follow could wait for. Leave one out.",
    );
  }
  // With the brain and its models.
  const { tellWhatIf } = await import("../../command/what-if.ts");
  await context.withSession(values, (session) =>
    tellWhatIf(context, session, { asked: jobs, isJson: values.json === true }),
  );
}

async function onSchedule(
  context: CommandContext,
  jobs: readonly JobSource[],
  values: SubmitValues,
): Promise<void> {
  if (values.wait === true || values.follow === true || jobs.some(isSingleton(values)))
    throw new OrbweaverError(
      "BAD_INPUT",
      "with --cron there is no job yet that --wait, --follow or --singleton could be of; --overlap queue waits for the job of before.",
    );
  const pinned = await Promise.all(
    jobs.map(async (source) => ({
      job: values.pin ? await withPinnedImage(context, source) : source.job,
    })),
  );
  await submitCron(context, pinned, values);
}

async function submitAll(
  context: CommandContext,
  jobs: readonly JobSource[],
  values: SubmitValues,
): Promise<void> {
  const { json } = values;
  const isAwaited = values.wait === true || values.follow === true;
  // The outputs of several jobs, or of the tasks of an array, have logs of their own.
  const isShown = isAwaited && json !== true && jobs.length === 1 && !jobs.some(isArray);
  if (jobs.some(isSingleton(values)) && values.key !== undefined)
    throw new OrbweaverError(
      "BAD_INPUT",
      "--singleton waits for other jobs each time, so the same --key would be another job. Leave one of them out.",
    );
  await context.withFleet(values, async ({ client }) => {
    if (jobs.length > 1) {
      // Before the first is submitted; the submission of each would find it too.
      for (const id of outsidersOf(jobs)) await client.job(id).ending();
      if (values.queueAnyway !== true && values.key === undefined)
        await client.checkStarts(jobs.filter(isUnkeyed).map(({ job }) => job));
    }
    const submit = submitter(context, client, values);
    const submitted = await sendInOrder(jobs, submit, ({ jobId }) => {
      // For a job that is waited for, its output is the answer.
      if (json !== true && !isShown) context.print(jobId);
      else if (json !== true) context.say(jobId);
    });
    if (!isAwaited) {
      if (json === true)
        context.printJson(submitted.length === 1 ? submitted[0] : { jobs: submitted });
      return;
    }
    for (const one of submitted) {
      const outcome = await waitFor(context, client.job(one.jobId), isShown);
      if (outcome === undefined) return;
      if (json === true) context.printJson({ ...one, outcome });
    }
  });
}

/** Submits one job of several; one that names an earlier job of its file waits for that one's id. */
function submitter(
  context: CommandContext,
  client: FleetClient,
  { pin, key, queueAnyway: isAnyway, ...others }: SubmitValues,
): (source: JobSource) => Promise<Submitted> {
  const sent = new Map<string, Promise<Submitted>>();
  const place = (series: string, name: string): string => JSON.stringify([series, name]);
  return (source) => {
    const { file, series } = source;
    const written = readJob(source.job).file;
    // Before this one is among them: it may have the name of the one that it waits for.
    const earlier = (series === undefined ? [] : (written.after ?? [])).flatMap(({ job: name }) => {
      const answer = sent.get(place(series ?? "", name));
      return answer === undefined ? [] : [{ name, answer }];
    });
    const submit = async (): Promise<Submitted> => {
      const pinned = pin ? await withPinnedImage(context, source) : source.job;
      const job = isSingleton(others)(source) ? await afterItsNamesakes(client, pinned) : pinned;
      const ids = new Map<string, string>();
      for (const { name, answer } of earlier) ids.set(name, (await answer).jobId);
      return await submitJob(context, client, {
        job: series === undefined ? job : withIds(job, ids),
        ...{ key, file, isAnyway },
      });
    };
    const answer = submit();
    if (series !== undefined) sent.set(place(series, written.name), answer);
    return answer;
  };
}

const isSingleton =
  ({ singleton }: Pick<SubmitValues, "singleton">) =>
  (source: JobSource): boolean =>
    singleton === true || source.isSingleton === true;

const isUnkeyed = ({ job }: JobSource): boolean => readJob(job).key === undefined;

const isArray = ({ job }: JobSource): boolean => readJob(job).file.array !== undefined;

/** The end of the job; undefined when Ctrl-C ended the wait. */
async function waitFor(
  context: CommandContext,
  job: JobHandle,
  isShown: boolean,
): Promise<JobOutcome | undefined> {
  const outcome = await followJob(context, job, isShown ? { output: { isRaw: false } } : {});
  if (outcome === undefined) {
    context.say(`${job.jobId} continues; \`orbweaver cancel ${job.jobId}\` stops it`);
    context.exitWith(EXIT.interrupted);
    return undefined;
  }
  endAsJob(context, job.jobId, outcome);
  return outcome;
}
