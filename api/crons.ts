/**
 * @file The schedules of a submit service: made under a standing signature, listed with what their times became, paused, and revoked. Temporal keeps them and their clock.
 */

import {
  ScheduleAlreadyRunning,
  ScheduleNotFoundError,
  type ScheduleDescription,
  type ScheduleHandle,
} from "@temporalio/client";
import { randomInt, randomUUID } from "node:crypto";
import { contentHash } from "../access/job-proof.ts";
import { fleetsRefusal, jobRefusal, submitRefusal } from "../access/principal.ts";
import { signStandingOrder } from "../access/standing-order.ts";
import type { CronRun, ListedCron, NewCron, SubmittedCron } from "../client/cron-client.ts";
import { asked, readJob } from "../client/index.ts";
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
import { labelled, orderOf } from "./cron-starts.ts";
import { insist, type Call, type Caller, type ServedFleet } from "./route.ts";

/** Its jobs have it as a label, and their ids begin with it. */
const ID = /^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/;
const MOST_NAME = 50;
const MOST_LISTED = 200;
const MOST_RUNS = 5;
const CATCH_UP = "1h";

export async function makeCron(
  { caller, served, accept }: Pick<Call, "caller" | "served" | "accept">,
  { job, key, ...when }: NewCron,
): Promise<SubmittedCron> {
  const { fleet, temporal } = served;
  const { principal, rights } = caller;
  const { file: written, key: keyInside } = readJob(job);
  const { idempotencyKey: _key, ...file } = written;
  if (file.after !== undefined)
    throw new OrbweaverError(
      "BAD_INPUT",
      "after: a job on a schedule cannot wait for other jobs: each time would wait for the same ones. For its own former jobs there is --overlap queue.",
    );
  const cron = key ?? keyInside ?? `${file.name.slice(0, MOST_NAME)}-${suffix()}`;
  if (!ID.test(cron))
    throw new OrbweaverError(
      "BAD_INPUT",
      `${JSON.stringify(cron)} cannot be the id of a schedule. Use at most 63 letters, digits, ., _ and -.`,
    );
  const { spec } = readJob(labelled(file, cron));
  insist(submitRefusal(principal, rights, spec));
  const fleets = [fleet, ...(spec.cells?.fleets ?? [])];
  insist(fleetsRefusal(principal, rights, { home: fleet, fleets }));
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
        memo: { fleet },
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
      contentHash(former?.input.terms) === contentHash(terms) &&
      former?.order.principal.name === principal.name;
    if (isSame) return { cron, isNew: false };
    throw new OrbweaverError(
      "IDEMPOTENCY_CONFLICT",
      `there is another schedule ${cron}. Use another key, or delete it first: orbweaver cron delete ${cron}`,
    );
  }
}

/** Those that the caller may see, by id. */
export async function listCrons(
  served: ServedFleet,
  caller: Caller,
): Promise<readonly ListedCron[]> {
  const { temporal, fleet } = served;
  const prefix = cronScheduleId(fleet, "");
  const names: string[] = [];
  for await (const { scheduleId, memo } of temporal.schedule.list())
    if (memo?.["fleet"] === fleet && scheduleId.startsWith(prefix))
      names.push(scheduleId.slice(prefix.length));
  const listed: ListedCron[] = [];
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
  // One that nobody can prove to be of a service, or that is revoked, is the operators'.
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
    if (known !== undefined) served.revoked.add(known.order.number);
    await schedule.delete();
  });
}

const noSuch = ({ fleet }: ServedFleet, cron: string): OrbweaverError =>
  new OrbweaverError(
    "NOT_FOUND",
    `fleet ${fleet} has no schedule ${cron}. \`orbweaver cron list\` lists them.`,
  );

interface FoundCron {
  readonly cron: string;
  readonly input: CronInput;
  readonly order: NonNullable<ReturnType<typeof orderOf>>;
  readonly described: ScheduleDescription;
}

/** Undefined for what is none, or not to be believed. */
async function found(served: ServedFleet, cron: string): Promise<FoundCron | undefined> {
  const { temporal, fleet } = served;
  const handle = temporal.schedule.getHandle(cronScheduleId(fleet, cron));
  try {
    const described = await asked(temporal, `schedule ${cron}`, () => handle.describe());
    const args: readonly unknown[] = described.action.args ?? [];
    const said: Partial<CronInput> = (args[0] ?? {}) as CronInput; // believed once its signature is
    const { terms, order: signed } = said;
    if (terms === undefined || signed === undefined) return undefined;
    const order = orderOf(served, { cron, terms, order: signed });
    return order && { cron, input: said as CronInput, order, described };
  } catch (error) {
    if (error instanceof ScheduleNotFoundError) return undefined;
    throw error;
  }
}

const refusalOf = (
  { principal, rights }: Caller,
  { input, order }: FoundCron,
  act: "see" | "change",
): string | undefined =>
  jobRefusal(principal, rights, {
    act,
    job: { user: order.principal.name, tenant: readJob(input.terms.file).spec.tenant },
  });

async function listedCron(
  { temporal }: ServedFleet,
  { cron, input, order, described }: FoundCron,
): Promise<ListedCron> {
  const { file, ...when } = input.terms;
  const { spec } = readJob(file);
  const { state, info } = described;
  const last = info.recentActions.slice(-MOST_RUNS).reverse();
  const runs = await Promise.all(
    last.map(async ({ scheduledAt, action }): Promise<CronRun> => {
      const { workflowId, firstExecutionRunId } = action.workflow;
      const run = temporal.workflow.getHandle(workflowId, firstExecutionRunId);
      const atMs = scheduledAt.getTime();
      return { atMs, outcome: await outcomeOf(run, cronJobId(cron, atMs)) };
    }),
  );
  const nextMs = info.nextActionTimes[0]?.getTime();
  return {
    ...{ cron, ...when, user: order.principal.name, tenant: spec.tenant, name: spec.name },
    isPaused: state.paused,
    ...(state.paused && state.note !== undefined && { note: state.note }),
    ...(nextMs !== undefined && !state.paused && { nextMs }),
    runs,
  };
}

interface CronWorkflow {
  readonly describe: () => Promise<{ readonly status: { readonly name: string } }>;
  readonly result: () => Promise<unknown>;
}

/** The server forgets the workflow of a time before the schedule does: the job's id is known all the same. */
async function outcomeOf(run: CronWorkflow, jobId: string): Promise<CronRun["outcome"]> {
  try {
    const { status } = await run.describe();
    if (status.name === "RUNNING") return { kind: "waits" };
    return (await run.result()) as CronOutcome; // our own workflow's
  } catch {
    return { kind: "submitted", jobId };
  }
}

/** Six characters of base 36, as of jobs. */
const suffix = (): string => randomInt(36 ** 5, 36 ** 6).toString(36);
