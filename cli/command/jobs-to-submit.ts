/** @file The jobs of one `submit`: from files, from standard input, from a batch script of Slurm, or from flags and a command line; flags override the file. */

import { readFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { readJob, type JobFile } from "../../client/index.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { embeddedModel } from "../planning/embedded-model.ts";
import { modelFolder } from "../serving/model-folder.ts";
import type { CommandContext } from "./command-context.ts";
import type { ConnectionOptionValues } from "./connection-options.ts";
import { checkNames, documentsOf, inItsLines } from "./job-documents.ts";
import { hasJobFlags, jobFileWith, type JobFlags } from "./job-flags.ts";
import { isSbatchScript, readSbatch } from "./sbatch.ts";
import { typedJob } from "./typed-job.ts";
import { placeFlags, sharingOf, type Sharing } from "./working-folder.ts";

export interface SourceFlags extends ConnectionOptionValues, JobFlags {
  readonly key?: string;
  readonly wait?: boolean;
  readonly follow?: boolean;
  readonly json?: boolean;
}

/** A text is passed on unchanged, so that problems name their line; with flags it becomes one object. */
export interface JobSource {
  readonly job: JobFile | string;
  readonly file?: string;
  /** Of a file of several jobs: it may name earlier ones of them. */
  readonly series?: string;
  /** Its script says so. */
  readonly isSingleton?: true;
}

/** With several files, all problems are reported at once. */
export async function jobsToSubmit(
  context: CommandContext,
  files: readonly string[],
  values: SourceFlags,
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
    readonly values: SourceFlags;
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
    if (!isAsWritten && !isAlone) checkMerged(job, file);
    else {
      const { file: fields } = readJob(job, file);
      // Of several, what was read of the text: its lines have been checked, and nobody reads it again.
      if (documents.length > 1) return { job: fields, file };
    }
    return isAsWritten ? { job, file } : { job };
  };
  const problems: unknown[] = [];
  const sources: JobSource[] = [];
  for (const document of documents) {
    try {
      sources.push(await sourceOf(inItsLines(document)));
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
  values: SourceFlags,
): Promise<JobSource> {
  const { job, isSingleton, unmapped } = readSbatch(text, { file, cwd: context.io.cwd });
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
  return { job: merged, ...(isSingleton && { isSingleton }) };
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
