/**
 * @file The schedules of a submit service: made under a standing signature, listed with what their times became, paused, and revoked. Temporal keeps them and their clock.
 */

import {
  ScheduleAlreadyRunning,
  ScheduleNotFoundError,
  type ScheduleHandle,
} from "@temporalio/client";
import { randomUUID } from "node:crypto";
import { z } from "zod";
import { contentHash } from "../access/job-proof.ts";
import { fleetsRefusal, jobRefusal, submitRefusal } from "../access/principal.ts";
import {
  claimedStandingOrder,
  provenCronLabel,
  signCronLabel,
  signStandingOrder,
  type StandingOrder,
} from "../access/standing-order.ts";
import type {
  CronList,
  CronRun,
  ListedCron,
  NewCron,
  ReadCron,
  SubmittedCron,
  UnreadCron,
} from "../client/cron-client.ts";
import { asked, readJob, type JobSpec } from "../client/index.ts";
import { FAILURE_CODES } from "../domain/values/codes.ts";
import { OrbweaverError } from "../domain/values/failure.ts";
import {
  CRON_RULES,
  CRON_WORKFLOW,
  cronJobId,
  cronScheduleId,
  type CronInput,
  type CronTerms,
} from "../protocol/cron.ts";
import { JOB_TASK_QUEUE } from "../protocol/messages.ts";
import { labelled, readInput, signedOrder, submittedBy } from "./cron-starts.ts";
import { insist, type Call, type Caller, type ServedFleet } from "./route.ts";
import { randomSuffix } from "../client/job-suffix.ts";
import {
  listedSchedules,
  resultOf,
  scheduleOf,
  type Schedule,
  type ScheduledRun,
} from "./schedules.ts";

/** Its jobs have it as a label, and their ids begin with it. */
const ID = /^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/;
const MOST_NAME = 50;
const MOST_OF_USER = 50;
/** Schedules of the fleet, forged ones too, that one list goes through: 20 µs each, and 0.2 ms where one has the form of our own. */
const MOST_SCANNED = 100_000;
const MOST_LISTED = 200;
/** Of those that the service has not signed: the server is asked for each. */
const MOST_UNSIGNED = 20;
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
  const shown = { fleet, user: principal.name, tenant: spec.tenant };
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
        memo: { ...shown, label: signCronLabel({ ...shown, cron }, served.apiIdentity()) },
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
      former.start.kind === "read" &&
      contentHash(former.start.terms) === contentHash(terms) &&
      former.start.order.principal.name === principal.name;
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

/** The server's list may be a second behind. Whoever reaches the frontend can put a label there again whose schedule is gone, so at the limit each is asked for. */
async function checkCount(
  served: ServedFleet,
  { name, cron }: { readonly name: string; readonly cron: string },
): Promise<void> {
  const others = (await seenCrons(served)).filter(
    (each) => each.isSigned && each.user === name && each.cron !== cron,
  );
  if (others.length < MOST_OF_USER) return;
  let count = 0;
  for (const each of others) {
    const known = await found(served, each.cron);
    if (known?.isProven === true && known.order?.principal.name === name) count += 1;
    if (count < MOST_OF_USER) continue;
    throw new OrbweaverError(
      "NOT_ALLOWED",
      `${name} has ${String(count)} schedules, and they are the most of one user. Delete some: orbweaver cron delete ID`,
    );
  }
}

interface SeenCron {
  readonly cron: string;
  readonly user: string | undefined;
  readonly tenant: string | undefined;
  /** Else whoever reaches the frontend may have written the rest. */
  readonly isSigned: boolean;
}

/** Also those of which it cannot be read whose they are. */
async function seenCrons({ temporal, fleet, ownKeys }: ServedFleet): Promise<readonly SeenCron[]> {
  const prefix = cronScheduleId(fleet, "");
  const keys = ownKeys();
  const seen: SeenCron[] = [];
  let scanned = 0;
  for await (const { scheduleId, memo } of listedSchedules(temporal, prefix)) {
    if ((memo.get("fleet") ?? fleet) === fleet) {
      const cron = scheduleId.slice(prefix.length);
      const label = provenCronLabel(memo.get("label"), { fleet, cron }, keys);
      seen.push({
        ...{ cron, isSigned: label !== undefined },
        user: label?.user ?? textOf(memo.get("user")),
        tenant: label?.tenant ?? textOf(memo.get("tenant")),
      });
    }
    scanned += 1;
    if (scanned >= MOST_SCANNED) break;
  }
  return seen;
}

const textOf = (value: unknown): string | undefined =>
  typeof value === "string" ? value : undefined;

/**
 * Those that the caller may see, by id: first what the service has signed, since whoever reaches the frontend can name the caller; at the end those that cannot be read.
 * The server is asked for as many as are shown, and for a few of those that are not signed.
 */
export async function listCrons(served: ServedFleet, caller: Caller): Promise<CronList> {
  const { principal, rights } = caller;
  const visible = (await seenCrons(served))
    .filter((job) => jobRefusal(principal, rights, { act: "see", job }) === undefined)
    .sort((one, other) => (one.cron < other.cron ? -1 : 1));
  const signed = visible.filter(({ isSigned }) => isSigned);
  const unsigned = visible.filter(({ isSigned }) => !isSigned);
  const shown = signed.slice(0, MOST_LISTED);
  const more = unsigned.slice(0, Math.min(MOST_UNSIGNED, MOST_LISTED - shown.length));
  const listed: ListedCron[] = [];
  const unproven: ReadableCron[] = [];
  const unread: ListedCron[] = [];
  for (const { cron } of [...shown, ...more]) {
    const known = await found(served, cron);
    if (known === undefined || refusalOf(caller, known, "see") !== undefined) continue;
    if (known.start.kind === "unread") unread.push({ cron, problem: known.start.problem });
    else if (known.isProven) listed.push(await listedCron(served, { ...known, ...known.start }));
    else unproven.push({ ...known, ...known.start });
  }
  for (const each of unproven) listed.push(await listedCron(served, each));
  const left = {
    signed: signed.length - shown.length,
    unsigned: unsigned.length - more.length,
  };
  return { crons: [...listed, ...unread], ...(left.signed + left.unsigned > 0 && { left }) };
}

/** Gives an order about a schedule that the caller may change. Throws NOT_FOUND. */
export async function orderCron(
  { caller, served, job: cron, accept }: Pick<Call, "caller" | "served" | "job" | "accept">,
  act: (schedule: ScheduleHandle) => Promise<void>,
): Promise<object> {
  const known = await found(served, cron);
  // One that says of nobody that it is theirs is the operators'.
  const isNobodys = known?.order === undefined && !caller.rights.roles.includes("operator");
  if (known === undefined || isNobodys) throw noSuch(served, cron);
  insist(refusalOf(caller, known, "change"));
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
    if (known?.order !== undefined && known.isProven) served.revoked.add(known.order.number);
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
  readonly schedule: Schedule;
  /** Undefined where it names nobody. */
  readonly order: StandingOrder | undefined;
  /** Else the terms and the order are what the schedule says of itself, and nothing is started. */
  readonly isProven: boolean;
  readonly isPutBack: boolean;
  readonly start: ReadStart | ({ readonly kind: "unread" } & Pick<UnreadCron, "problem">);
}

interface ReadStart {
  readonly kind: "read";
  readonly terms: CronTerms;
  readonly order: StandingOrder;
  readonly spec: JobSpec;
}

type ReadableCron = Omit<FoundCron, "start" | "order"> & ReadStart;

/** Undefined where there is none, and for one of another fleet, whose ids may begin as those of this one do. */
async function found(served: ServedFleet, cron: string): Promise<FoundCron | undefined> {
  const { temporal, fleet } = served;
  const schedule = await scheduleOf(temporal, cronScheduleId(fleet, cron));
  if (schedule === undefined) return undefined;
  const input = readInput(schedule.input);
  const claimed = claimedStandingOrder(input?.order);
  if ((claimed?.fleet ?? schedule.memo.get("fleet") ?? fleet) !== fleet) return undefined;
  if (input === undefined || claimed === undefined) {
    const start = { kind: "unread", problem: "unreadable" } as const;
    return { cron, schedule, order: claimed, isProven: false, isPutBack: false, start };
  }
  const { terms } = input;
  const signed = signedOrder(served, { cron, terms, order: input.order });
  // Somebody has put it there again since it was deleted, or the server has kept it.
  const isPutBack = signed !== undefined && served.revoked.has(signed.number);
  const isProven = signed !== undefined && !isPutBack;
  const order = isProven ? signed : claimed;
  const known = { cron, schedule, order, isProven, isPutBack };
  try {
    const { spec } = readJob(terms.file);
    return { ...known, start: { kind: "read", terms, order, spec } };
  } catch (error) {
    if (!(error instanceof OrbweaverError)) throw error;
    return { ...known, start: { kind: "unread", problem: "bad job file" } };
  }
}

/** Nobody but who is named is told of one that is not proven, and operators. */
const refusalOf = (
  { principal, rights }: Caller,
  { order, isProven, start }: FoundCron,
  act: "see" | "change",
): string | undefined =>
  jobRefusal(principal, rights, {
    act,
    job: {
      user: order?.principal.name,
      tenant: isProven && start.kind === "read" ? start.spec.tenant : undefined,
    },
  });

async function listedCron(
  served: ServedFleet,
  { cron, isProven, isPutBack, schedule, terms, order, spec }: ReadableCron,
): Promise<ReadCron> {
  const { expression, timeZone, overlap } = terms;
  const { isPaused, note, nextMs } = schedule;
  const last = schedule.lastTimes.slice(-MOST_RUNS).reverse();
  const runs = await Promise.all(
    last.map(async (run): Promise<CronRun> => ({
      atMs: run.atMs,
      outcome: await outcomeOf(served, order, run),
    })),
  );
  return {
    ...{ cron, expression, timeZone, overlap, isProven },
    ...(isPutBack && { isPutBack }),
    ...{ user: order.principal.name, tenant: spec.tenant, name: spec.name },
    isPaused,
    ...(isPaused && note !== "" && { note }),
    ...(nextMs !== undefined && !isPaused && { nextMs }),
    runs,
  };
}

const outcomeSchema = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("submitted"), jobId: z.string() }),
  z.object({ kind: z.literal("skipped"), former: z.string() }),
  z.object({ kind: z.literal("refused"), code: z.enum(FAILURE_CODES), message: z.string() }),
]);

/** The server forgets the workflow of a time before the schedule does: then the job says it, while it is known. What is no answer of our own workflow is unknown. */
export async function outcomeOf(
  served: ServedFleet,
  order: StandingOrder,
  { atMs, workflowId, runId }: ScheduledRun,
): Promise<CronRun["outcome"]> {
  const { temporal } = served;
  const run = temporal.workflow.getHandle(workflowId, runId);
  try {
    const { status } = await asked(temporal, `workflow ${workflowId}`, () => run.describe());
    if (status.name === "RUNNING") return { kind: "waits" };
    const said = outcomeSchema.safeParse(await resultOf(temporal, workflowId, runId));
    return said.data ?? { kind: "unknown" };
  } catch (error) {
    if (!(error instanceof OrbweaverError) || error.code !== "NOT_FOUND") throw error;
    const jobId = cronJobId(order, atMs);
    const isThere = (await submittedBy(order.principal.name, served, jobId)) !== undefined;
    return isThere ? { kind: "submitted", jobId } : { kind: "unknown" };
  }
}
