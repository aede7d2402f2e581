/**
 * @file A YAML file of several jobs: its documents, and the names by which a later one waits for an earlier one.
 *
 * A job's id is known only once it is submitted, so `after` may say the name of an earlier job of the same file.
 */

import { OrbweaverError, readJob, type JobFile } from "../../client/index.ts";

/** `---`, with nothing or a comment after it; inside a block of text it would be indented. */
const DIVIDER = /^---\s*(#.*)?$/;
const SAYS_NOTHING = /^\s*(#.*)?$/;

/** Each document in its own lines, so that problems name the lines of the file. */
export function documentsOf(text: string): readonly string[] {
  const documents: string[][] = [[]];
  for (const [at, line] of text.split(/\r?\n/).entries()) {
    if (DIVIDER.test(line)) documents.push(Array.from({ length: at + 1 }, () => ""));
    else documents.at(-1)?.push(line);
  }
  const full = documents.filter((lines) => !lines.every((line) => SAYS_NOTHING.test(line)));
  return full.length < 2 ? [text] : full.map((lines) => lines.join("\n"));
}

/** Throws BAD_INPUT where a job names one that is not before it, or one of several. */
export function checkNames(jobs: readonly (JobFile | string)[], file: string): void {
  const names = jobs.map((job) => readJob(job, file).file.name);
  for (const [at, job] of jobs.entries())
    for (const { job: named } of readJob(job, file).file.after ?? []) {
      const places = names.flatMap((name, place) => (name === named ? [place] : []));
      const before = places.filter((place) => place < at);
      if (places.length === 0 || before.length === 1) continue;
      const [what, remedy] =
        before.length === 0
          ? ["does not come before it", "Put it first"]
          : [`is the name of ${String(before.length)} jobs before it`, "Give them other names"];
      throw new OrbweaverError(
        "BAD_INPUT",
        `${file}: job ${String(names[at])} waits for ${named}, which ${what} in this file. ${remedy}.`,
      );
    }
}

/** The jobs that these wait for and that are not among those of the same file. */
export function outsidersOf(
  jobs: readonly { readonly job: JobFile | string; readonly series?: string }[],
): readonly string[] {
  const files = jobs.map(({ job, series }) => ({ file: readJob(job).file, series }));
  const isInside = (named: string, series: string | undefined): boolean =>
    series !== undefined && files.some((one) => one.series === series && one.file.name === named);
  const outside = files.flatMap(({ file: { after = [] }, series }) =>
    after.flatMap(({ job }) => (isInside(job, series) ? [] : [job])),
  );
  return [...new Set(outside)];
}

/** The job with the ids of the earlier jobs that it names; `ids` by their names. */
export function withIds(job: JobFile | string, ids: ReadonlyMap<string, string>): JobFile {
  const { file } = readJob(job);
  if (file.after === undefined) return file;
  return {
    ...file,
    after: file.after.map((each) => ({ ...each, job: ids.get(each.job) ?? each.job })),
  };
}
