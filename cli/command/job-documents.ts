/**
 * @file A YAML file of several jobs: its documents, and the names by which a later one waits for an earlier one.
 *
 * A job's id is known only once it is submitted, so `after` may say the name of an earlier job of the same file.
 */

import { OrbweaverError, readJob, type JobFile } from "../../client/index.ts";

/** `---`, with nothing or a comment after it; inside a block of text it would be indented. */
const DIVIDER = /^---\s*(#.*)?$/;
const SAYS_NOTHING = /^\s*(#.*)?$/;

/** One of the documents of a text. */
export interface FileDocument {
  readonly linesBefore: number;
  readonly text: string;
}

/** The text alone where it has one document. */
export function documentsOf(text: string): readonly FileDocument[] {
  const documents: { linesBefore: number; lines: string[] }[] = [{ linesBefore: 0, lines: [] }];
  for (const [at, line] of text.split(/\r?\n/).entries()) {
    if (DIVIDER.test(line)) documents.push({ linesBefore: at + 1, lines: [] });
    else documents.at(-1)?.lines.push(line);
  }
  const full = documents.filter(({ lines }) => !lines.every((line) => SAYS_NOTHING.test(line)));
  if (full.length < 2) return [{ linesBefore: 0, text }];
  return full.map(({ linesBefore, lines }) => ({ linesBefore, text: lines.join("\n") }));
}

/** The document in its own lines, so that problems name the lines of the file. Not to be kept: of many documents they are long. */
export const inItsLines = ({ linesBefore, text }: FileDocument): string =>
  "\n".repeat(linesBefore) + text;

/** Throws BAD_INPUT where a job names one that is not before it, or one of several. */
export function checkNames(jobs: readonly (JobFile | string)[], file: string): void {
  const files = jobs.map((job) => readJob(job, file).file);
  const placesOf = new Map<string, number[]>();
  for (const [at, { name }] of files.entries())
    if (placesOf.get(name)?.push(at) === undefined) placesOf.set(name, [at]);
  for (const [at, { name, after = [] }] of files.entries())
    for (const { job: named } of after) {
      const places = placesOf.get(named) ?? [];
      const before = places.filter((place) => place < at);
      if (places.length === 0 || before.length === 1) continue;
      const [what, remedy] =
        before.length === 0
          ? ["does not come before it", "Put it first"]
          : [`is the name of ${String(before.length)} jobs before it`, "Give them other names"];
      throw new OrbweaverError(
        "BAD_INPUT",
        `${file}: job ${name} waits for ${named}, which ${what} in this file. ${remedy}.`,
      );
    }
}

/** The jobs that these wait for and that are not among those of the same file. */
export function outsidersOf(
  jobs: readonly { readonly job: JobFile | string; readonly series?: string }[],
): readonly string[] {
  const files = jobs.map(({ job, series }) => ({ file: readJob(job).file, series }));
  const inside = new Set(files.map(({ file, series }) => JSON.stringify([series, file.name])));
  const isInside = (named: string, series: string | undefined): boolean =>
    series !== undefined && inside.has(JSON.stringify([series, named]));
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
