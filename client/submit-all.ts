/**
 * @file Submits many jobs: all are read before the first is sent, then so many are on their way at a time, and the answers are in the order of the jobs.
 *
 * What has a problem stops everything before anything is queued, with all problems at once. A submission that fails afterwards stops those that have
 * not begun; the error says which jobs were submitted, and jobs with keys can be sent again.
 */

import type { JobFile } from "../domain/job/job-file.ts";
import { OrbweaverError } from "../domain/values/failure.ts";
import type { SubmitOptions, Submitted } from "./submission.ts";

export type SubmitAllOptions = Omit<SubmitOptions, "idempotencyKey" | "file"> & {
  /** Called for each job in their order, as soon as it and all before it are submitted. */
  readonly onSubmitted?: (submitted: Submitted, at: number) => void;
};

interface Ways {
  readonly submit: (job: JobFile, options: SubmitOptions) => Promise<Submitted>;
  /** Throws where one of them would never start. */
  readonly check: (jobs: readonly JobFile[]) => Promise<void>;
}

/** Each as an object or as YAML text. Throws BAD_INPUT with the problems of all, or NEVER_STARTS. */
export async function submitAll(
  jobs: readonly (JobFile | string)[],
  { onSubmitted, ...options }: SubmitAllOptions = {},
  { submit, check }: Ways,
): Promise<readonly Submitted[]> {
  const files = await readAll(jobs);
  // One with a key may be there already, and is asked about by its own submission, which finds that.
  if (options.isQueuedAnyway !== true)
    await check(files.filter(({ idempotencyKey }) => idempotencyKey === undefined));
  return await sendInOrder(files, (file) => submit(file, options), onSubmitted);
}

async function readAll(jobs: readonly (JobFile | string)[]): Promise<readonly JobFile[]> {
  const { readJob } = await import("./submission.ts");
  const problems: string[] = [];
  let code: OrbweaverError["code"] = "BAD_INPUT";
  const files = jobs.flatMap((job, at) => {
    try {
      return [readJob(job, placeOf(at)).file];
    } catch (error) {
      if (!(error instanceof OrbweaverError)) throw error;
      if (problems.length === 0) code = error.code;
      // A text's problems name their place themselves.
      const lines = error.message.split("\n");
      const isNamed = typeof job === "string" && error.code === "BAD_INPUT";
      problems.push(...lines.map((line) => (isNamed ? line : `${placeOf(at)}: ${line}`)));
      return [];
    }
  });
  problems.push(...keysTwice(jobs.length === files.length ? files : []));
  if (problems.length > 0)
    throw new OrbweaverError(code, problems.join("\n"), { details: { problems } });
  return files;
}

const placeOf = (at: number): string => `job ${String(at + 1)}`;

function keysTwice(files: readonly JobFile[]): readonly string[] {
  const first = new Map<string, number>();
  return files.flatMap(({ idempotencyKey: key }, at) => {
    const former = key === undefined ? undefined : first.get(key);
    if (key !== undefined && former === undefined) first.set(key, at);
    return former === undefined
      ? []
      : [
          `${placeOf(at)}: idempotencyKey ${String(key)} is that of ${placeOf(former)} already. Give each job a key of its own.`,
        ];
  });
}

/** More than a client has starts in flight (`submission.ts`), so that these never wait for the next job to be read or signed. */
const ON_THEIR_WAY = 16;

/** `send` is called in the order of the items, and so may wait for what an earlier one gives. */
export async function sendInOrder<Item>(
  items: readonly Item[],
  send: (item: Item, at: number) => Promise<Submitted>,
  onSubmitted: (submitted: Submitted, at: number) => void = () => undefined,
): Promise<readonly Submitted[]> {
  const answers = new Array<Submitted | undefined>(items.length);
  const queue = items.entries();
  let told = 0;
  let failure: { readonly error: unknown; readonly at: number } | undefined;
  const lane = async (): Promise<void> => {
    for (const [at, item] of queue) {
      try {
        answers[at] = await send(item, at);
      } catch (error) {
        failure ??= { error, at };
      }
      for (let next = answers[told]; next !== undefined; next = answers[told])
        onSubmitted(next, told++);
      if (failure !== undefined) return;
    }
  };
  await Promise.all(Array.from({ length: Math.min(ON_THEIR_WAY, items.length) }, lane));
  const submitted = answers.filter((answer) => answer !== undefined);
  if (failure === undefined) return submitted;
  const { error, at } = failure;
  if (!(error instanceof OrbweaverError) || items.length === 1) throw error;
  const ids = submitted.map(({ jobId }) => jobId);
  throw new OrbweaverError(
    error.code,
    `${placeOf(at)}: ${error.message}\n${String(ids.length)} of ${String(items.length)} jobs were submitted before that, and no further one is; jobs with an idempotencyKey can be submitted again.`,
    { cause: error, details: { submitted: ids, failed: at, cause: error.details } },
  );
}
