/** @file The routes about jobs. Each asks first whether the caller may, then notes it, then does it by the client library. */

import { z } from "zod";
import type { Identity } from "../access/own-identity.ts";
import { jobRefusal, operatorRefusal, seesOthers, submitRefusal } from "../access/principal.ts";
import { type JobFilter, type JobHandle, type ListedJob } from "../client/index.ts";
import type { ServiceJob } from "../client/service-client.ts";
import { withinTime } from "../client/time-limit.ts";
import { OrbweaverError } from "../domain/values/failure.ts";
import { MAX_TASK_PAGE, TASK_STATES } from "../protocol/messages.ts";
import { endingWithout, viewWithout } from "./hidden.ts";
import { allowed, allowedToRun, type JobFacts } from "./job-facts.ts";
import { queuedAnyway, started, submission } from "./submit-routes.ts";
import { listQuery, whole } from "./job-queries.ts";
import { jobLogs, logQuery } from "./job-logs.ts";
import {
  AccessRefusal,
  FORCED,
  insist,
  route,
  type Call,
  type OrderNote,
  type Route,
} from "./route.ts";
import { hiddenFrom, lineWithoutUnseen, withoutUnseen } from "./unseen-predecessors.ts";

const MOST_LISTED = 1_000;
const MAX_WAIT_S = 30;

const tasksText = z.string().max(10_000).meta({ description: "Tasks of an array, as in 3,7-9." });
const nothing = z.strictObject({});
/** The library reads the values as those of a job file. */
const settings = z.strictObject({
  priority: z.number().exactOptional(),
  tenant: z.string().exactOptional(),
  timeLimit: z.string().exactOptional(),
  deadline: z.string().exactOptional(),
  min: z.number().exactOptional(),
  max: z.number().exactOptional(),
  isQueuedAnyway: queuedAnyway,
});
export const JOB_ROUTES: readonly Route[] = [
  route({
    method: "GET",
    path: "/v1/jobs",
    id: "list",
    summary: `Lists the jobs that the caller may see, the newest first, at most ${String(MOST_LISTED)}.`,
    query: listQuery,
    answer: list,
  }),
  route({
    method: "GET",
    path: "/v1/jobs/{job}",
    id: "status",
    summary:
      "The job's settings, state and runs; with `wait`, once it has ended or the seconds are over.",
    query: z.strictObject({ wait: whole(MAX_WAIT_S).exactOptional() }),
    answer: status,
  }),
  route({
    method: "GET",
    path: "/v1/jobs/{job}/explain",
    id: "explain",
    summary: "Why the job waits, or why it runs where it runs.",
    answer: async ({ caller, served, job }) => {
      const facts = await allowed(served, caller, { act: "see", jobId: job });
      const { view, ending, ...more } = await served.client.job(job).explain();
      return { ...(await shownTo({ caller, served, facts }, { view, ending })), ...more };
    },
  }),
  route({
    method: "GET",
    path: "/v1/jobs/{job}/progress",
    id: "progress",
    summary: "Of a running job: what its hosts have reported.",
    answer: async ({ caller, served, job }) => {
      await allowed(served, caller, { act: "see", jobId: job });
      return { runs: await served.client.job(job).progress() };
    },
  }),
  route({
    method: "GET",
    path: "/v1/jobs/{job}/tasks",
    id: "tasks",
    summary: "Tasks of a job array, from a number on.",
    query: z.strictObject({
      from: whole(1_000_000_000),
      count: whole(MAX_TASK_PAGE),
      state: z.enum(TASK_STATES).exactOptional(),
    }),
    answer: async ({ caller, served, job, query }) => {
      // Messages of tasks have their last lines.
      await allowed(served, caller, { act: "read", jobId: job });
      return await served.client.job(job).tasks(query);
    },
  }),
  route({
    method: "GET",
    path: "/v1/jobs/{job}/logs",
    id: "logs",
    summary:
      "The output of a job, as lines of JSON: {text}, {attempt}, {attemptEnd}, {dropped}, {isEnd}; `lost` in one is a rank whose host has not answered.",
    query: logQuery,
    isStream: true,
    answer: jobLogs,
  }),
  change({
    id: "cancel",
    summary: "Cancels a job; `isForced` kills it without a checkpoint.",
    body: z.strictObject({ isForced: z.boolean().exactOptional() }),
    note: ({ isForced }) => (isForced === true ? { what: FORCED } : {}),
    act: async (job, body) => {
      await job.cancel(body);
      return { state: body.isForced === true ? "killing" : "cancelling" };
    },
  }),
  change({
    id: "hold",
    summary: "Takes a waiting job out of the queue.",
    body: nothing,
    act: async (job) => ({ state: await job.hold() }),
  }),
  change({
    id: "release",
    summary: "Puts a held job back into the queue.",
    body: nothing,
    isRun: true,
    act: async (job) => ({ state: await job.release() }),
  }),
  change({
    id: "suspend",
    summary: "Ends a job's run with a checkpoint, and holds the job.",
    body: nothing,
    act: async (job) => ({ state: await job.suspend() }),
  }),
  change({
    id: "requeue",
    summary: "Ends a job's run with a checkpoint; the job asks again at once.",
    body: nothing,
    isRun: true,
    act: async (job) => ({ state: await job.requeue() }),
  }),
  route({
    method: "POST",
    path: "/v1/jobs/{job}/move",
    id: "move",
    summary: "Has another fleet run the job: for operators, since `access:` says nothing of it.",
    body: z.strictObject({ fleet: z.string() }),
    note: ({ fleet }) => ({ what: `to fleet ${fleet}` }),
    answer: async ({ caller, served, job, body: { fleet }, accept }) => {
      const { principal, rights } = caller;
      await allowed(served, caller, { act: "change", jobId: job });
      // Also back to this fleet: who has moved the job away is not overruled by its submitter.
      insist(operatorRefusal(principal, rights, "move jobs"));
      accept();
      // What the other fleet has is not for its eyes.
      return await served.client.job(job, principal.name).move(fleet, { isQueuedAnyway: true });
    },
  }),
  route({
    method: "POST",
    path: "/v1/jobs/{job}/amend",
    id: "amend",
    summary: "Changes settings of a job that waits or runs, to what the caller may ask for.",
    body: settings,
    note: ({ isQueuedAnyway: _, ...changes }) => ({ what: settingsText(changes) }),
    answer: async ({ caller, served, job, body, accept }) => {
      const { principal, rights } = caller;
      const { isQueuedAnyway = false, ...changes } = body;
      await allowed(served, caller, { act: "change", jobId: job });
      return await served.client.job(job, principal.name).amend(changes, {
        isQueuedAnyway,
        signer: ({ publicKey }) => changeSigner({ caller, served }, publicKey),
        check: async (spec) => {
          insist(submitRefusal(principal, rights, spec));
          await Promise.resolve(accept());
        },
      });
    },
  }),
  change({
    id: "tasks/cancel",
    summary: "Cancels tasks of a job array.",
    body: z.strictObject({ tasks: tasksText }),
    note: tasksNote,
    act: (job, { tasks }) => job.cancelTasks(tasks),
  }),
  change({
    id: "tasks/retry",
    summary: "Runs ended tasks of a job array that has not ended again.",
    body: z.strictObject({ tasks: tasksText }),
    note: tasksNote,
    isRun: true,
    act: (job, { tasks }) => job.retryTasks(tasks),
  }),
  route({
    method: "POST",
    path: "/v1/jobs/{job}/retry",
    id: "retry",
    summary: "Submits the file of an ended job as a new one, in the caller's name.",
    body: z.strictObject({
      tasks: tasksText.exactOptional(),
      idempotencyKey: z.string().exactOptional(),
      fromCheckpoint: z.literal(true).exactOptional().meta({
        description:
          "Go on from the newest checkpoint of the former job, and refuse where there is none.",
      }),
    }),
    answer: async (call) => {
      const { caller, served, job, body } = call;
      await allowed(served, caller, { act: "change", jobId: job });
      return await started(call, () =>
        served.client.job(job).rerun({ ...body, ...submission(call) }),
      );
    },
  }),
];

interface JobChange<Body extends z.ZodType> {
  /** The end of its path, too. */
  readonly id: string;
  readonly summary: string;
  readonly body: Body;
  readonly note?: (body: z.output<Body>) => OrderNote;
  /** Processes of the job may start after it. */
  readonly isRun?: true;
  readonly act: (job: JobHandle, body: z.output<Body>) => Promise<unknown>;
}

function change<Body extends z.ZodType>(of: JobChange<Body>): Route {
  const { id, summary, body, note, isRun, act } = of;
  return route({
    method: "POST",
    path: `/v1/jobs/{job}/${id}`,
    id: id.replace("/", "-"),
    summary,
    body,
    ...(note !== undefined && { note }),
    answer: async ({ caller, served, job, body: given, accept }) => {
      if (isRun === true) await allowedToRun(served, caller, job);
      else await allowed(served, caller, { act: "change", jobId: job });
      accept();
      return await act(served.client.job(job, caller.principal.name), given);
    },
  });
}

function tasksNote({ tasks }: { readonly tasks: string }): OrderNote {
  return { what: `tasks ${tasks}` };
}

const settingsText = (changes: Omit<z.output<typeof settings>, "isQueuedAnyway">): string =>
  Object.entries(changes)
    .map(([name, value]) => `${name} ${String(value)}`)
    .join(", ");

/** The kind of key that has signed the job; throws where the caller may not have it signed. */
function changeSigner(
  { caller: { principal }, served }: Pick<Call, "caller" | "served">,
  formerKey: string,
): Identity {
  const own = served.ownIdentity();
  if (formerKey === own.publicKey && principal.isOwner) return own;
  if (formerKey !== own.publicKey && served.ownKeys().includes(formerKey))
    return { ...served.apiIdentity(), name: principal.name };
  throw new AccessRefusal("only its submitter may change tenant or time limit of this job");
}

async function list({
  caller,
  served,
  query,
  gone,
}: Call<z.output<typeof listQuery>>): Promise<{ readonly jobs: readonly ListedJob[] }> {
  const { principal, rights } = caller;
  const { isMine, limit = MOST_LISTED, ...asked } = query.filter ?? {};
  // Who sees only its own jobs has the server look for no others, unless no query can say the name.
  const isOwn = isMine === true || (!seesOthers(rights) && /^[^"'\\`]+$/.test(principal.name));
  if (isOwn && asked.user !== undefined && asked.user !== principal.name) return { jobs: [] };
  const filter: JobFilter = { ...asked, ...(isOwn && { user: principal.name }) };
  const most = Math.min(limit, MOST_LISTED);
  const jobs: ListedJob[] = [];
  const isHidden = hiddenFrom({ caller, served });
  for await (const listed of served.client.list(filter)) {
    // As the search index says it: a list is no proof, and shows nothing that the queue does not.
    const job = { user: listed.user, tenant: listed.tenant };
    if (jobRefusal(principal, rights, { act: "see", job }) === undefined)
      jobs.push(await lineWithoutUnseen(listed, isHidden));
    if (jobs.length >= most || gone.aborted) break;
  }
  return { jobs };
}

async function status({
  caller,
  served,
  job,
  query: { wait = 0 },
  gone,
}: Call<{ readonly wait?: number }>): Promise<ServiceJob> {
  const facts = await allowed(served, caller, { act: "see", jobId: job });
  const handle = served.client.job(job);
  if (wait > 0) {
    const over = withinTime(wait * 1_000, gone);
    try {
      await served.temporal.withAbortSignal(over, () => handle.outcome());
    } catch (error) {
      // The call was cut off: the library takes it for one that nobody answers.
      const isCut = error instanceof OrbweaverError && error.code === "NO_CONNECTION";
      if (!over.aborted || !isCut) throw error;
    }
  }
  const [view, ending] = await Promise.all([handle.view(), handle.ending()]);
  return await shownTo({ caller, served, facts }, { view, ending });
}

async function shownTo(
  { caller, served, facts: job }: Pick<Call, "caller" | "served"> & { readonly facts: JobFacts },
  whole: ServiceJob,
): Promise<ServiceJob> {
  const { view, ending } = await withoutUnseen(whole, hiddenFrom({ caller, served }), job.user);
  const isHidden = jobRefusal(caller.principal, caller.rights, { act: "read", job }) !== undefined;
  return isHidden ? { view: viewWithout(view), ending: endingWithout(ending) } : { view, ending };
}
