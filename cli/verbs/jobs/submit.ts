/** @file `orbweaver submit`: jobs from files, from standard input, or from flags and a command line; flags override the file. */

import type { Command } from "commander";
import { readFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import {
  readJob,
  sendInOrder,
  type FleetClient,
  type JobFile,
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
  WHAT_IF_EXIT_CODE_HELP,
} from "../../terminal/exit-code.ts";
import { hasJobFlags, jobFileWith, type JobFlags } from "../../command/job-flags.ts";
import { endAsJob, followJob } from "../../command/job-follower.ts";
import { withPinnedImage } from "../../command/pinned-image.ts";
import { afterItsNamesakes } from "../../command/singleton.ts";
import { submitJob } from "../../command/submit-job.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import { embeddedModel } from "../../planning/embedded-model.ts";
import { modelFolder } from "../../serving/model-folder.ts";
import { placeFlags, sharingOf, type Sharing } from "../../command/working-folder.ts";
import { typedJob } from "../../command/typed-job.ts";
import { tellWhatIf } from "../../command/what-if.ts";
import { checkNames, documentsOf, outsidersOf, withIds } from "../../command/job-documents.ts";
import { isSbatchScript, readSbatch } from "../../command/sbatch.ts";
import { addJobOptions } from "../../command/job-options.ts";

interface SubmitValues extends ConnectionOptionValues, JobFlags {
  readonly key?: string;
  readonly wait?: boolean;
  readonly follow?: boolean;
  readonly json?: boolean;
  readonly whatIf?: boolean;
  readonly pin: boolean;
  readonly singleton?: boolean;
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
          ["orbweaver submit train.sbatch", "a batch script of Slurm"],
          ["orbweaver submit --what-if train.yaml", "show where and when the job would start"],
          ["orbweaver submit --key nightly-12 train.yaml", "safe to repeat after a lost answer"],
        ],
        `${EXIT_CODE_HELP}\n${WHAT_IF_EXIT_CODE_HELP}\n${WAIT_EXIT_CODE_HELP}`,
      ),
    )
    .action(async (files: readonly string[], values: SubmitValues) => {
      // With several files, nothing is submitted while one has a problem, and all problems are reported at once.
      const jobs = await jobsToSubmit(context, files, placed(values));
      if (values.whatIf === true) await ask(context, jobs, values);
      else await submitAll(context, jobs, values);
    });
  return addServiceOptions(verb);
}

/** What-if sends nothing, and its answer does not depend on the folder. */
const placed = (values: SubmitValues): SubmitValues =>
  values.whatIf === true && values.sync === true
    ? { ...values, sync: false, workdir: values.workdir ?? "." }
    : values;

/** A text is passed on unchanged, so that problems name their line; with flags it becomes one object. */
interface JobSource {
  readonly job: JobFile | string;
  readonly file?: string;
  /** Of a file of several jobs: it may name earlier ones of them. */
  readonly series?: string;
}

async function jobsToSubmit(
  context: CommandContext,
  files: readonly string[],
  values: SubmitValues,
): Promise<readonly JobSource[]> {
  const { commandLine } = context;
  if (commandLine?.length === 0) {
    throw new OrbweaverError(
      "BAD_INPUT",
      "nothing follows `--`. Write the command there, e.g. `-- python train.py`.",
    );
  }
  if (files.length === 0) {
    if (commandLine === undefined) {
      throw new OrbweaverError(
        "BAD_INPUT",
        "no job is given. Name a file (or `-`), or write `--gpus 8 -- python train.py`.",
      );
    }
    return [{ job: await typedJob(context, values, commandLine) }];
  }
  const sharing = await sharingOf(values, context.io);
  const read = await Promise.allSettled(
    files.map((name) => sourcesOf(context, name, { files, values, sharing })),
  );
  const reasons = read.flatMap((one): unknown[] => (one.status === "rejected" ? [one.reason] : []));
  if (reasons.length > 0) throw together(reasons);
  const jobs = read.flatMap((one) => (one.status === "fulfilled" ? one.value : []));
  if (
    jobs.length > 1 &&
    (values.key !== undefined ||
      (values.json === true && (values.wait === true || values.follow === true)))
  ) {
    throw new OrbweaverError(
      "BAD_INPUT",
      "--key, and --wait with --json, work with one job only. Submit the jobs one by one.",
    );
  }
  return jobs;
}

/** The jobs of one file: one, or one for each of its documents. */
async function sourcesOf(
  context: CommandContext,
  name: string,
  {
    files,
    values,
    sharing,
  }: {
    readonly files: readonly string[];
    readonly values: SubmitValues;
    readonly sharing: Sharing;
  },
): Promise<readonly JobSource[]> {
  const { commandLine, io } = context;
  const all = name === "-" ? await io.readInput() : await readText(resolve(io.cwd, name), name);
  const file = name === "-" ? "standard input" : name;
  if (isSbatchScript(all)) return [await fromSbatch(context, { text: all, file }, values)];
  const documents = documentsOf(all);
  const isAlone = files.length === 1 && documents.length === 1;
  const sourceOf = async (text: string): Promise<JobSource> => {
    const { workdir: _named, ...others } = values;
    const place = await placeFlags(context, values, {
      commandLine,
      file: {
        text,
        modelFolder: name === "-" ? undefined : modelFolder(text, resolve(io.cwd, name)),
      },
      sharing: () => Promise.resolve(sharing),
    });
    const folder = name === "-" ? io.cwd : dirname(resolve(io.cwd, name));
    const flags = { ...others, ...place, ...embeddedModel({ text, file, folder }) };
    const isAsWritten = commandLine === undefined && !hasJobFlags(flags);
    const job = isAsWritten ? text : jobFileWith({ text, file }, flags, commandLine);
    // A text's problems name their file; with flags the file is only a part of the job.
    if (isAsWritten || isAlone) readJob(job, file);
    else checkMerged(job, file);
    return isAsWritten ? { job, file } : { job };
  };
  const problems: unknown[] = [];
  const sources: JobSource[] = [];
  for (const text of documents) {
    try {
      sources.push(await sourceOf(text));
    } catch (problem) {
      problems.push(problem);
    }
  }
  if (problems.length > 0) throw together(problems);
  if (sources.length === 1) return sources;
  checkNames(
    sources.map(({ job }) => job),
    file,
  );
  return sources.map((source) => ({ ...source, series: file }));
}

/** A batch script of Slurm; the flags override its options. */
async function fromSbatch(
  context: CommandContext,
  { text, file }: { readonly text: string; readonly file: string },
  values: SubmitValues,
): Promise<JobSource> {
  const { job, unmapped } = readSbatch(text, { file, cwd: context.io.cwd });
  for (const line of unmapped) context.say(`left out: ${line}`);
  const { run, ...rest } = job as { readonly run: { readonly workdir: string } };
  const { workdir: folder, ...inside } = run;
  const { workdir = folder, ...others } = values;
  const { commandLine } = context;
  const sharing = (): Promise<Sharing> => Promise.resolve("all");
  const place = await placeFlags(context, { ...values, workdir }, { commandLine, sharing });
  const base = { text: JSON.stringify({ ...rest, run: inside }), file };
  const merged = jobFileWith(base, { ...others, ...place }, commandLine);
  checkMerged(merged, file);
  return { job: merged };
}

function checkMerged(job: JobFile | string, file: string): void {
  try {
    readJob(job);
  } catch (error) {
    if (!(error instanceof OrbweaverError)) throw error;
    const lines = error.message.split("\n").map((line) => `${file} with flags: ${line}`);
    throw new OrbweaverError(error.code, lines.join("\n"), { cause: error });
  }
}

/** The problems of all files as one error; any other error is thrown first, unchanged. */
function together(reasons: readonly unknown[]): unknown {
  const refusals = reasons.filter((reason) => reason instanceof OrbweaverError);
  const [first] = refusals;
  const other = reasons.find((reason) => !(reason instanceof OrbweaverError));
  if (other !== undefined || first === undefined || refusals.length === 1) return other ?? first;
  const messages = refusals.map(({ message }) => message);
  return new OrbweaverError(first.code, messages.join("\n"), { details: { problems: messages } });
}

async function readText(path: string, name: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    const why = error instanceof Error && "code" in error ? String(error.code) : String(error);
    const text = why === "ENOENT" ? "does not exist" : `cannot be read (${why})`;
    throw new OrbweaverError(
      "BAD_INPUT",
      `${name} ${text}. Name a job file, or \`-\` for standard input.`,
    );
  }
}

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
  await context.withSession(values, (session) =>
    tellWhatIf(context, session, { asked: jobs, isJson: values.json === true }),
  );
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
  if (values.singleton === true && values.key !== undefined)
    throw new OrbweaverError(
      "BAD_INPUT",
      "--singleton waits for other jobs each time, so the same --key would be another job. Leave one of them out.",
    );
  await context.withFleet(values, async ({ client }) => {
    if (jobs.length > 1)
      // Before the first is submitted; the submission of each would find it too.
      for (const id of outsidersOf(jobs)) await client.job(id).ending();
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
  { pin, key, singleton }: SubmitValues,
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
      const job = singleton === true ? await afterItsNamesakes(client, pinned) : pinned;
      const ids = new Map<string, string>();
      for (const { name, answer } of earlier) ids.set(name, (await answer).jobId);
      return await submitJob(context, client, {
        job: series === undefined ? job : withIds(job, ids),
        ...{ key, file },
      });
    };
    const answer = submit();
    if (series !== undefined) sent.set(place(series, written.name), answer);
    return answer;
  };
}

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
