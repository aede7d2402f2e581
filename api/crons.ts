/**
 * @file The schedules of a submit service: made under a standing signature, listed with what their times became, paused, and revoked. Temporal keeps them and their clock.
 */

import {
  ScheduleAlreadyRunning,
  ScheduleNotFoundError,
  type ScheduleDescription,
  type ScheduleHandle,
} from "@temporalio/client";
import { randomUUID } from "node:crypto";
import { contentHash } from "../access/job-proof.ts";
import { fleetsRefusal, jobRefusal, submitRefusal } from "../access/principal.ts";
import {
  claimedStandingOrder,
  signStandingOrder,
  type StandingOrder,
} from "../access/standing-order.ts";
import type { CronRun, ListedCron, NewCron, SubmittedCron } from "../client/cron-client.ts";
import { asked, readJob, type JobSpec } from "../client/index.ts";
import { OrbweaverError } from "../domain/values/failure.ts";
import {
  CRON_RULES,
  CRON_WORKFLOW,
  cronJobId,
  cronScheduleId,
  type CronInput,
  type CronOutcome,
  type CronTerms,
} from "../protocol/cron.ts";
import { JOB_TASK_QUEUE } from "../protocol/messages.ts";
import { labelled, orderOf, submittedBy } from "./cron-starts.ts";
import { insist, type Call, type Caller, type ServedFleet } from "./route.ts";
import { randomSuffix } from "../client/job-suffix.ts";

/** Its jobs have it as a label, and their ids begin with it. */
const ID = /^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/;
const MOST_NAME = 50;
const MOST_OF_USER = 50;
/** Schedules of the server that one list looks at. */
const MOST_SCANNED = 5_000;
const MOST_LISTED = 200;
const MOST_RUNS = 5;
const CATCH_UP = "1h";
/** Once a minute at most; Temporal would also take seconds, years, intervals, and a time zone before them. */
const FIVE_FIELDS = /^[\w*,/?-]+(?: +[\w*,/?-]+){4}$/;
const NAMED_TIMES = ["@hourly", "@daily", "@weekly", "@monthly", "@yearly"];

export async function makeCron(
  { caller, served, accept }: Pick<Call, "caller" | "served" | "accept">,
  { job, key, isQueuedAnyway, ...when }: NewCron,
): Promise<SubmittedCron> {
  const { fleet, temporal } = served;
  const { principal, rights } = caller;
  checkTimes(when.expression);
  const { file: written, key: keyInside } = readJob(job);
  const { idempotencyKey: _key, ...file } = written;
  if (file.after !== undefined)
    throw new OrbweaverError(
      "BAD_INPUT",
      "after: a job on a schedule cannot wait for other jobs: each time would wait for the same ones. For its own former jobs there is --overlap queue.",
    );
  const cron = key ?? keyInside ?? `${file.name.slice(0, MOST_NAME)}-${randomSuffix()}`;
  if (!ID.test(cron))
    throw new OrbweaverError(
      "BAD_INPUT",
      `${JSON.stringify(cron)} cannot be the id of a schedule. Use at most 63 letters, digits, ., _ and -.`,
    );
  const { spec } = readJob(labelled(file, cron));
  insist(submitRefusal(principal, rights, spec));
  const fleets = [fleet, ...(spec.cells?.fleets ?? [])];
  insist(fleetsRefusal(principal, rights, { home: fleet, fleets }));
  await checkCount(served, { name: principal.name, cron });
  if (isQueuedAnyway !== true) await served.client.checkStarts([file]);
  accept(cron);
  const terms: CronTerms = { file, ...when };
  const order = { fleet, cron, principal, number: randomUUID() };
  const input: CronInput = {
    ...{ rules: CRON_RULES, fleet, cron, terms },
    order: signStandingOrder(order, terms, served.apiIdentity()),
  };
  try {
    await asked(temporal, `schedule ${cron}`, () =>
      temporal.schedule.create({
        scheduleId: cronScheduleId(fleet, cron),
        spec: { cronExpressions: [terms.expression], timezone: terms.timeZone },
        // Overlapping jobs are judged by who submits them; this is of the workflows that ask for that.
        policies: { overlap: "SKIP", catchupWindow: CATCH_UP },
        action: {
          type: "startWorkflow",
          workflowType: CRON_WORKFLOW,
          workflowId: cronScheduleId(fleet, cron),
          taskQueue: JOB_TASK_QUEUE,
          args: [input],
          staticSummary: `a job of ${cron}`,
        },
        memo: { fleet, user: principal.name, tenant: spec.tenant },
      }),
    );
    return { cron, isNew: true };
  } catch (error) {
    // In the words of the server, for times or a zone that it cannot read.
    if (error instanceof TypeError)
      throw new OrbweaverError("BAD_INPUT", `the schedule: ${error.message}`, { cause: error });
    if (!(error instanceof ScheduleAlreadyRunning)) throw error;
    const former = await found(served, cron);
    const isSame =
      former?.isProven === true &&
      contentHash(former.terms) === contentHash(terms) &&
      former.order.principal.name === principal.name;
    if (isSame) return { cron, isNew: false };
    throw new OrbweaverError(
      "IDEMPOTENCY_CONFLICT",
      `there is another schedule ${cron}. Use another key, or delete it first: orbweaver cron delete ${cron}`,
    );
  }
}

function checkTimes(expression: string): void {
  if (NAMED_TIMES.includes(expression) || FIVE_FIELDS.test(expression)) return;
  throw new OrbweaverError(
    "BAD_INPUT",
    `the times ${JSON.stringify(expression)} are not five fields of cron. Write minute, hour, day, month and weekday, as in "0 3 * * *", or ${NAMED_TIMES.join(", ")}; the time zone has an option of its own (--time-zone).`,
  );
}

/** The server's list may be a second behind. */
async function checkCount(
  served: ServedFleet,
  { name, cron }: { readonly name: string; readonly cron: string },
): Promise<void> {
  const all = await seenCrons(served);
  const others = all.filter((each) => each.user === name && each.cron !== cron);
  if (others.length >= MOST_OF_USER)
    throw new OrbweaverError(
      "NOT_ALLOWED",
      `${name} has ${String(others.length)} schedules, and ${String(MOST_OF_USER)} are the most of one user. Delete some: orbweaver cron delete ID`,
    );
}

interface SeenCron {
  readonly cron: string;
  /** By its memo, which its signature does not cover. */
  readonly user: string | undefined;
  readonly tenant: string | undefined;
}

async function seenCrons({ temporal, fleet }: ServedFleet): Promise<readonly SeenCron[]> {
  const prefix = cronScheduleId(fleet, "");
  const seen: SeenCron[] = [];
  let scanned = 0;
  for await (const { scheduleId, memo } of temporal.schedule.list()) {
    if (memo?.["fleet"] === fleet && scheduleId.startsWith(prefix))
      seen.push({
        cron: scheduleId.slice(prefix.length),
        user: textOf(memo["user"]),
        tenant: textOf(memo["tenant"]),
      });
    scanned += 1;
    if (scanned >= MOST_SCANNED) break;
  }
  return seen;
}

const textOf = (value: unknown): string | undefined =>
  typeof value === "string" ? value : undefined;

/** Those that the caller may see, by id. */
export async function listCrons(
  served: ServedFleet,
  caller: Caller,
): Promise<readonly ListedCron[]> {
  const { principal, rights } = caller;
  const listed: ListedCron[] = [];
  const names = (await seenCrons(served))
    .filter((job) => jobRefusal(principal, rights, { act: "see", job }) === undefined)
    .map(({ cron }) => cron);
  for (const cron of names.sort()) {
    const known = await found(served, cron);
    if (known === undefined || refusalOf(caller, known, "see") !== undefined) continue;
    if (listed.length >= MOST_LISTED) break;
    listed.push(await listedCron(served, known));
  }
  return listed;
}

/** Gives an order about a schedule that the caller may change. Throws NOT_FOUND. */
export async function orderCron(
  { caller, served, job: cron, accept }: Pick<Call, "caller" | "served" | "job" | "accept">,
  act: (schedule: ScheduleHandle) => Promise<void>,
): Promise<object> {
  const known = await found(served, cron);
  // One that says of nobody that it is theirs is the operators'.
  if (known === undefined && !caller.rights.roles.includes("operator")) throw noSuch(served, cron);
  if (known !== undefined) insist(refusalOf(caller, known, "change"));
  accept();
  const { temporal, fleet } = served;
  const schedule = temporal.schedule.getHandle(cronScheduleId(fleet, cron));
  try {
    await asked(temporal, `schedule ${cron}`, () => act(schedule));
  } catch (error) {
    throw error instanceof ScheduleNotFoundError ? noSuch(served, cron) : error;
  }
  return { cron };
}

/** Its signature first: what is left of the schedule, or put there again, starts nothing. */
export async function deleteCron(
  call: Pick<Call, "caller" | "served" | "job" | "accept">,
): Promise<object> {
  const { served, job: cron } = call;
  return await orderCron(call, async (schedule) => {
    const known = await found(served, cron);
    // What is not proven may name the number of another's.
    if (known?.isProven === true) served.revoked.add(known.order.number);
    await schedule.delete();
  });
}

const noSuch = ({ fleet }: ServedFleet, cron: string): OrbweaverError =>
  new OrbweaverError(
    "NOT_FOUND",
    `fleet ${fleet} has no schedule ${cron}. Schedules are called by their ids, which \`orbweaver cron list\` shows.`,
  );

interface FoundCron {
  readonly cron: string;
  readonly terms: CronTerms;
  readonly order: StandingOrder;
  /** Else the terms and the order are what the schedule says of itself, and nothing is started. */
  readonly isProven: boolean;
  readonly spec: JobSpec;
  readonly described: ScheduleDescription;
}

/** Undefined for what is none. */
async function found(served: ServedFleet, cron: string): Promise<FoundCron | undefined> {
  const { temporal, fleet } = served;
  const handle = temporal.schedule.getHandle(cronScheduleId(fleet, cron));
  try {
    const described = await asked(temporal, `schedule ${cron}`, () => handle.describe());
    const args: readonly unknown[] = described.action.args ?? [];
    const { terms, order: signed } = (args[0] ?? {}) as Partial<CronInput>; // believed once its signature is
    if (terms === undefined || signed === undefined) return undefined;
    const proven = orderOf(served, { cron, terms, order: signed });
    const order = proven ?? claimedStandingOrder(signed);
    if (order === undefined) return undefined;
    const { spec } = readJob(terms.file);
    return { cron, terms, order, isProven: proven !== undefined, spec, described };
  } catch (error) {
    if (error instanceof ScheduleNotFoundError) return undefined;
    if (error instanceof OrbweaverError && error.code === "BAD_INPUT") return undefined;
    throw error;
  }
}

/** Nobody but who is named is told of one that is not proven, and operators. */
const refusalOf = (
  { principal, rights }: Caller,
  { order, isProven, spec }: FoundCron,
  act: "see" | "change",
): string | undefined =>
  jobRefusal(principal, rights, {
    act,
    job: { user: order.principal.name, tenant: isProven ? spec.tenant : undefined },
  });

async function listedCron(
  served: ServedFleet,
  { cron, terms, order, isProven, spec, described }: FoundCron,
): Promise<ListedCron> {
  const { expression, timeZone, overlap } = terms;
  const { state, info } = described;
  const last = info.recentActions.slice(-MOST_RUNS).reverse();
  const runs = await Promise.all(
    last.map(async ({ scheduledAt, action: { workflow } }): Promise<CronRun> => {
      const atMs = scheduledAt.getTime();
      return { atMs, outcome: await outcomeOf(served, { order, atMs, ...workflow }) };
    }),
  );
  const nextMs = info.nextActionTimes[0]?.getTime();
  return {
    ...{ cron, expression, timeZone, overlap, isProven },
    ...{ user: order.principal.name, tenant: spec.tenant, name: spec.name },
    isPaused: state.paused,
    ...(state.paused && state.note !== undefined && { note: state.note }),
    ...(nextMs !== undefined && !state.paused && { nextMs }),
    runs,
  };
}

interface OneRun {
  readonly order: StandingOrder;
  readonly atMs: number;
  readonly workflowId: string;
  readonly firstExecutionRunId: string;
}

/** The server forgets the workflow of a time before the schedule does: then the job says it, while it is known. */
export async function outcomeOf(
  served: ServedFleet,
  { order, atMs, workflowId, firstExecutionRunId }: OneRun,
): Promise<CronRun["outcome"]> {
  const { temporal } = served;
  const run = temporal.workflow.getHandle(workflowId, firstExecutionRunId);
  try {
    const { status } = await asked(temporal, `workflow ${workflowId}`, () => run.describe());
    if (status.name === "RUNNING") return { kind: "waits" };
    if (status.name !== "COMPLETED") return { kind: "unknown" };
    const said = await asked(temporal, `workflow ${workflowId}`, () => run.result());
    return said as CronOutcome; // our own workflow's
  } catch (error) {
    if (!(error instanceof OrbweaverError) || error.code !== "NOT_FOUND") throw error;
    const jobId = cronJobId(order, atMs);
    const isThere = (await submittedBy(order.principal.name, served, jobId)) !== undefined;
    return isThere ? { kind: "submitted", jobId } : { kind: "unknown" };
  }
}
