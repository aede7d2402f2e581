/**
 * @file Submits the job of one time of a schedule: under its standing signature, with the rights that its submitter has today, after a look at the jobs of before.
 *
 * It may be asked twice for the same time: the job's id says which time it is of, and one that is there is not judged again.
 */

import { z } from "zod";
import type { AuditLog } from "../access/audit-log.ts";
import { fleetsRefusal, rightsOf, submitRefusal, type Rights } from "../access/principal.ts";
import { provenStandingOrder, type StandingOrder } from "../access/standing-order.ts";
import type { JobHandle, ListedJob } from "../client/index.ts";
import type { Access } from "../domain/fleet/access-schema.ts";
import { fileTooLarge } from "../domain/lease/job-size.ts";
import { MAX_DEPENDENCIES } from "../domain/job/dependency.ts";
import type { JobFile } from "../domain/job/job-file.ts";
import { OrbweaverError } from "../domain/values/failure.ts";
import {
  CRON_LABEL,
  cronJobId,
  cronScheduleId,
  OVERLAPS,
  type CronActivities,
  type CronInput,
  type CronOutcome,
  type CronTerms,
} from "../protocol/cron.ts";
import { sealProblem, type CameFlawed, type KeysInUse } from "../protocol/seal.ts";
import { jobFacts, mayDo } from "./job-facts.ts";
import { insist, type ServedFleet } from "./route.ts";
import { scheduleOf } from "./schedules.ts";

/** Jobs of one schedule that wait or run; its times are skipped beyond. */
const MOST_OPEN = 100;

export interface CronStarts {
  readonly served: ServedFleet;
  readonly access: () => Access;
  readonly audit: Pick<AuditLog, "add">;
  /** Of the payloads; with them a time whose schedule is not encrypted is refused. */
  readonly keys?: KeysInUse;
}

const inputSchema = z.looseObject({
  cron: z.string(),
  terms: z.strictObject({
    file: z.looseObject({}).refine((file) => fileTooLarge(file) === undefined),
    expression: z.string(),
    timeZone: z.string(),
    overlap: z.enum(OVERLAPS),
  }),
  order: z.string(),
});

/** Whoever reaches the frontend gives any input: undefined for what has another form. The file is one once its signature, or the job's parser, has said so. */
export function readInput(input: unknown): Pick<CronInput, "cron" | "terms" | "order"> | undefined {
  const read = inputSchema.safeParse(input).data;
  return read && { ...read, terms: { ...read.terms, file: read.terms.file as unknown as JobFile } };
}

/** Throws where Temporal or the fleet does not answer, to be asked again. */
export function cronStarter({
  served,
  access,
  audit,
  keys,
}: CronStarts): CronActivities["startCron"] {
  return async (given, atMs, came) => {
    const input = readInput(given);
    const order = input && orderOf(served, input);
    const cron = input?.cron ?? "unknown";
    const jobId = order && cronJobId(order, atMs);
    const line = {
      who: order?.principal.name ?? "unknown",
      from: `schedule ${cron}`,
      act: "cron-start",
      job: jobId ?? cron,
    };
    try {
      if (input === undefined || order === undefined || jobId === undefined)
        throw new OrbweaverError(
          "NOT_ALLOWED",
          `the standing signature of schedule ${cron} is forged, revoked, of another service, or from before two rotations of the service's key. Delete the schedule and submit it again: orbweaver cron delete ${cron}`,
        );
      if (keys !== undefined && came !== undefined)
        await refuseUnsealed(served, cron, { keys, came });
      const rights = rightsOf(order.principal, access());
      const accept = (): void => audit.add({ ...line, verdict: "accepted" });
      return await started({ served, order, rights, accept }, { terms: input.terms, jobId });
    } catch (error) {
      if (!(error instanceof OrbweaverError) || error.code === "NO_CONNECTION") throw error;
      const { code, message } = error;
      audit.add({ ...line, verdict: "refused", why: message });
      return { kind: "refused", code, message };
    }
  };
}

/** What a schedule has said since before there were keys is heard. Throws NOT_ALLOWED. */
async function refuseUnsealed(
  { fleet, temporal }: ServedFleet,
  cron: string,
  { keys, came }: { readonly keys: KeysInUse; readonly came: CameFlawed },
): Promise<void> {
  const { saidAtMs = came.atMs ?? Infinity } =
    (await scheduleOf(temporal, cronScheduleId(fleet, cron))) ?? {};
  const why = sealProblem(keys, came.flaw, { atMs: saidAtMs });
  if (why === undefined) return;
  throw new OrbweaverError(
    "NOT_ALLOWED",
    `the terms of schedule ${cron} are refused: ${why}. Delete the schedule and submit it again: orbweaver cron delete ${cron}`,
  );
}

/** What the service has signed of this schedule, also if it was told to delete that since. Undefined where it has not. */
export function signedOrder(
  { fleet, ownKeys }: ServedFleet,
  { cron, terms, order: signed }: Pick<CronInput, "cron" | "terms" | "order">,
): StandingOrder | undefined {
  const order = provenStandingOrder(signed, terms, ownKeys());
  return order?.fleet === fleet && order.cron === cron ? order : undefined;
}

/** Undefined where it is not to be believed, or no more. */
function orderOf(
  served: ServedFleet,
  input: Pick<CronInput, "cron" | "terms" | "order">,
): StandingOrder | undefined {
  const order = signedOrder(served, input);
  return order !== undefined && served.revoked.has(order.number) ? undefined : order;
}

interface OneTime {
  readonly served: ServedFleet;
  readonly order: StandingOrder;
  readonly rights: Rights;
  readonly accept: () => void;
}

async function started(
  { served, order: { cron, principal }, rights, accept }: OneTime,
  { terms: { file, overlap }, jobId }: { readonly terms: CronTerms; readonly jobId: string },
): Promise<CronOutcome> {
  const { client } = served;
  const { name } = principal;
  const open = async (): Promise<readonly ListedJob[]> =>
    (await openJobs(served, cron)).filter(({ user }) => user === name);
  const submittedAtMs = await submittedBy(name, served, jobId);
  if (submittedAtMs !== undefined) {
    // This is asked again: whether all of before were cancelled is not known.
    if (overlap === "replace")
      for (const former of await open())
        if (former.submittedAtMs < submittedAtMs) await cancelled(client, former.jobId, name);
    return { kind: "submitted", jobId };
  }
  const former = await open();
  const last = former[0]?.jobId;
  // Under `queue` one waits behind the one that runs.
  const most = { skip: 0, queue: 1, allow: MOST_OPEN - 1, replace: Infinity }[overlap];
  if (last !== undefined && former.length > most) return { kind: "skipped", former: last };
  const before = overlap === "queue" || overlap === "replace" ? former : [];
  const after = before
    .slice(0, MAX_DEPENDENCIES)
    .map((each) => ({ job: each.jobId, on: "end" as const }));
  const job: JobFile = { ...labelled(file, cron), ...(after.length > 0 && { after }) };
  await client.submit(job, {
    idempotencyKey: jobId,
    // Its schedule was asked about when it was made.
    isQueuedAnyway: true,
    signer: () => served.signerOf(principal),
    maySee: (each) => mayDo(served, { principal, rights }, { act: "see", jobId: each }),
    admit: ({ spec, fleet }) => {
      insist(submitRefusal(principal, rights, spec));
      const fleets = [fleet, ...(spec.cells?.fleets ?? [])];
      insist(fleetsRefusal(principal, rights, { home: served.fleet, fleets }));
      accept();
    },
  });
  // After the new one is there: what is refused replaces nothing.
  if (overlap === "replace") for (const each of former) await cancelled(client, each.jobId, name);
  return { kind: "submitted", jobId };
}

/** One that has ended needs no cancel: the list of jobs may be a second behind. */
async function cancelled(client: ServedFleet["client"], jobId: string, by: string): Promise<void> {
  const job = client.job(jobId, by);
  try {
    await job.cancel();
  } catch (error) {
    // No refusal of this time, whose job is there: it is asked again.
    if (!(await hasEnded(job))) throw new Error(`${jobId} was not cancelled`, { cause: error });
  }
}

async function hasEnded(job: Pick<JobHandle, "ending">): Promise<boolean> {
  try {
    return (await job.ending()).outcome !== undefined;
  } catch (error) {
    return error instanceof OrbweaverError && error.code === "NOT_FOUND";
  }
}

/** The job as each time submits it. */
export const labelled = (file: JobFile, cron: string): JobFile => ({
  ...file,
  labels: { ...file.labels, [CRON_LABEL]: cron },
});

/** When this user submitted the job; undefined where there is none, or another's. */
export async function submittedBy(
  user: string,
  served: ServedFleet,
  jobId: string,
): Promise<number | undefined> {
  try {
    const facts = await jobFacts(served, jobId);
    return facts.user === user ? facts.submittedAtMs : undefined;
  } catch (error) {
    if (error instanceof OrbweaverError && error.code === "NOT_FOUND") return undefined;
    throw error;
  }
}

/** The newest first. */
async function openJobs({ client }: ServedFleet, cron: string): Promise<readonly ListedJob[]> {
  const open: ListedJob[] = [];
  for await (const job of client.list({ labels: [`${CRON_LABEL}=${cron}`] })) open.push(job);
  return open;
}
