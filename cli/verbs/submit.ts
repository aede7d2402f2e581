/** @file `orbweaver submit`: jobs from files, from standard input, or as a one-liner; flags override what a file says. */

import { Option, type Command } from "commander";
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import {
  readJob,
  type JobFile,
  type JobHandle,
  type JobOutcome,
  type Submitted,
} from "../../client/index.ts";
import { OrbweaverError } from "../../domain/failure.ts";
import { JOB_CLASSES } from "../../domain/job.ts";
import { addConnectionOptions, type ConnectionOptionValues } from "../connection-options.ts";
import { EXIT, EXIT_CODE_HELP, exitCodeOfOutcome, WAIT_EXIT_CODE_HELP } from "../exit-code.ts";
import { hasJobFlags, jobFileWith, type JobFlags } from "../job-flags.ts";
import { followJob, outcomeText } from "../job-follower.ts";
import { helpEnd, type Kit } from "../kit.ts";
import { modelFolder } from "../serving/model-folder.ts";
import { tellWhatIf } from "../what-if.ts";
import { keyValue, nameList, wholeNumber } from "../option-values.ts";

interface SubmitValues extends ConnectionOptionValues, JobFlags {
  readonly key?: string;
  readonly wait?: boolean;
  readonly follow?: boolean;
  readonly json?: boolean;
  readonly whatIf?: boolean;
}

export function submitVerb(kit: Kit): Command {
  const verb = kit
    .verb("submit")
    .summary("submit jobs")
    .description(
      "Submits jobs from files (`-` is standard input), or one job from flags and the command line after `--`.\n" +
        "Flags override what the file says. Prints the job's id.",
    )
    .argument("[files...]", "job files")
    .usage("[options] [files...] [-- command...]")
    .option("-g, --gpus <count>", "GPUs that the job needs at once", wholeNumber("--gpus", 1))
    .option(
      "--min <count>",
      "smallest gang to take after the gang timeout",
      wholeNumber("--min", 1),
    )
    .option("--gang-timeout <duration>", "when smaller gangs become acceptable, e.g. 10m")
    .option("--grow", "having started smaller, go on at full size when there is room")
    .option("--name <name>", "name of the job (else made from its command)")
    .addOption(new Option("--class <class>", "what kind of work it is").choices(JOB_CLASSES))
    .option("--tenant <tenant>", "whose quota it uses")
    .option("--priority <number>", "higher goes first inside a tenant", readInteger)
    .option(
      "-e, --env <KEY=VALUE>",
      "variable of the processes; may be repeated",
      keyValue("--env"),
    )
    .option("--workdir <folder>", "folder of the processes, as the hosts see it")
    .addOption(
      new Option("--launch <how>", "one process for each GPU or each host").choices([
        "per-gpu",
        "per-host",
      ]),
    )
    .option("--gpu-type <types>", "only GPUs of these types, e.g. H100,H200", nameList)
    .option("--memory <size>", "memory of each GPU, at least, e.g. 80GiB")
    .option("--cluster <clusters>", "only in these clusters", nameList)
    .option("--jurisdiction <names>", "only where one of these laws holds, e.g. EU", nameList)
    .option("--same-host", "all GPUs in one host")
    .option("--anti-affinity <label>", "never on a host with another job of this label")
    .option("--preempt", "it may be stopped for another job: checkpoint, and in line again")
    .option("--no-preempt", "it may not")
    .option("--shrink", "its GPUs above --min may be taken alone")
    .option("--min-runtime <duration>", "so long after its start nobody stops it")
    .option("--time-limit <duration>", "how long a run may last, e.g. 2h")
    .option("--deadline <duration>", "the job must have ended this long after its submission")
    .option(
      "--attempts <count>",
      "runs in all, when its processes fail",
      wholeNumber("--attempts", 1),
    )
    .option(
      "--fleets <fleets>",
      "other fleets that may run it, asked in turn, e.g. eu,us",
      nameList,
    )
    .option("--patience <duration>", "how long each fleet is waited for, e.g. 2m")
    .option(
      "--array <count>",
      "run it so many times, each with its own ARRAY_INDEX",
      wholeNumber("--array", 1),
    )
    .option(
      "--parallel <count>",
      "tasks of an array that may run at once",
      wholeNumber("--parallel", 1),
    )
    .option("--hold", "wait until `orbweaver release`")
    .option("-k, --key <key>", "the job's id: the same key never submits a second job")
    .option("-w, --wait", "wait for the end; exit with the job's own status")
    .option("-f, --follow", "like --wait, and show the log of rank 0 meanwhile")
    .option(
      "--what-if",
      "submit nothing: say where and when it would start, and whom it would preempt",
    )
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd(
        [
          ["orbweaver submit train.yaml", "one job from a file"],
          ["orbweaver submit --gpus 8 --time-limit 2h -- python train.py --lr 3e-4", "a one-liner"],
          ["orbweaver submit -f train.yaml --gpus 4", "a smaller form of a file, and its log"],
          ["orbweaver submit --gpus 1 --array 1000 --parallel 50 -- ./sweep.sh", "a job array"],
          ["orbweaver submit --fleets us,ap --patience 5m train.yaml", "elsewhere if not here"],
          ["orbweaver submit --what-if train.yaml", "where and when would it start?"],
          ["orbweaver submit --key nightly-12 train.yaml", "safe to repeat after a lost answer"],
        ],
        `${EXIT_CODE_HELP}\n${WAIT_EXIT_CODE_HELP}`,
      ),
    )
    .action(async (files: readonly string[], values: SubmitValues) => {
      // Of several files none is submitted while one of them is wrong, and all that is wrong is said at once.
      const jobs = await jobsToSubmit(kit, files, values);
      if (values.whatIf === true) await ask(kit, jobs, values);
      else await submitAll(kit, jobs, values);
    });
  return addConnectionOptions(verb);
}

/** A text goes as it is, so that problems name their line; with flags it becomes one object. */
interface JobSource {
  readonly job: JobFile | string;
  readonly file?: string;
}

async function jobsToSubmit(
  kit: Kit,
  files: readonly string[],
  values: SubmitValues,
): Promise<readonly JobSource[]> {
  const { commandLine, io } = kit;
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
    const job = jobFileWith(undefined, values, commandLine);
    readJob(job);
    return [{ job }];
  }
  if (
    files.length > 1 &&
    (values.key !== undefined ||
      values.follow === true ||
      (values.json === true && values.wait === true))
  ) {
    throw new OrbweaverError(
      "BAD_INPUT",
      "--key, --follow and --wait --json are for one job. Submit the files one by one.",
    );
  }
  const read = await Promise.allSettled(
    files.map(async (name): Promise<JobSource> => {
      const text =
        name === "-" ? await io.readInput() : await readText(resolve(io.cwd, name), name);
      const file = name === "-" ? "standard input" : name;
      const folder = name === "-" ? undefined : modelFolder(text, resolve(io.cwd, name));
      const flags =
        folder === undefined || values.workdir !== undefined
          ? values
          : { ...values, workdir: folder };
      const isAsWritten = commandLine === undefined && !hasJobFlags(flags);
      const job = isAsWritten ? text : jobFileWith({ text, file }, flags, commandLine);
      // A text's problems name their file; with flags the file is only a part of the job.
      if (isAsWritten || files.length === 1) readJob(job, file);
      else judgeMerged(job, file);
      return isAsWritten ? { job, file } : { job };
    }),
  );
  const reasons = read.flatMap((one): unknown[] => (one.status === "rejected" ? [one.reason] : []));
  if (reasons.length > 0) throw together(reasons);
  return read.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
}

function judgeMerged(job: JobFile | string, file: string): void {
  try {
    readJob(job);
  } catch (error) {
    if (!(error instanceof OrbweaverError)) throw error;
    const lines = error.message.split("\n").map((line) => `${file} with flags: ${line}`);
    throw new OrbweaverError(error.code, lines.join("\n"), { cause: error });
  }
}

/** The problems of all files as one error; anything that is no problem of a file comes first, as it is. */
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

async function ask(kit: Kit, jobs: readonly JobSource[], values: SubmitValues): Promise<void> {
  if (values.wait === true || values.follow === true) {
    throw new OrbweaverError(
      "BAD_INPUT",
      "--what-if submits nothing that --wait or --follow could wait for. Leave one out.",
    );
  }
  await kit.withSession(values, (session) =>
    tellWhatIf(kit, session, { asked: jobs, isJson: values.json === true }),
  );
}

async function submitAll(
  kit: Kit,
  jobs: readonly JobSource[],
  values: SubmitValues,
): Promise<void> {
  const { wait, follow, json, key } = values;
  await kit.withSession(values, async ({ client }) => {
    const submitted: Submitted[] = [];
    for (const { job, file } of jobs) {
      const answer = await client.submit(job, {
        ...(key !== undefined && { idempotencyKey: key }),
        ...(file !== undefined && { file }),
      });
      submitted.push(answer);
      if (!answer.isNew) kit.say(`${answer.jobId} had been submitted before; nothing was started`);
      // Of a job that is followed, the log is the answer.
      if (json !== true && follow !== true) kit.print(answer.jobId);
      else if (json !== true) kit.say(answer.jobId);
    }
    if (wait !== true && follow !== true) {
      if (json === true) kit.printJson(submitted.length === 1 ? submitted[0] : { jobs: submitted });
      return;
    }
    for (const one of submitted) {
      const outcome = await waitFor(kit, client.job(one.jobId), follow === true && json !== true);
      if (outcome === undefined) return;
      if (json === true) kit.printJson({ ...one, outcome });
    }
  });
}

/** The end of the job; undefined when Ctrl-C ended the waiting, not the job. */
async function waitFor(
  kit: Kit,
  job: JobHandle,
  isFollowed: boolean,
): Promise<JobOutcome | undefined> {
  const outcome = await followJob(kit, job, isFollowed);
  if (outcome === undefined) {
    kit.say(`${job.jobId} goes on without us; \`orbweaver cancel ${job.jobId}\` stops it`);
    kit.exitWith(EXIT.interrupted);
    return undefined;
  }
  kit.say(outcomeText(job.jobId, outcome));
  const exitCode = exitCodeOfOutcome(outcome);
  if (exitCode !== EXIT.ok) kit.exitWith(exitCode);
  return outcome;
}

function readInteger(text: string): number {
  if (/^-?\d+$/.test(text)) return Number(text);
  throw new OrbweaverError(
    "BAD_INPUT",
    `--priority ${JSON.stringify(text)} is not a whole number. Write one from -1000 to 1000.`,
  );
}
