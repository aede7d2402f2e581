/**
 * @file Submits the job of one time of a schedule: under its standing signature, with the rights that its submitter has today, after a look at the jobs of before.
 *
 * It may be asked twice for the same time: the job's id says which time it is of, and one that is there is not judged again.
 */

import type { AuditLog } from "../access/audit-log.ts";
import { fleetsRefusal, rightsOf, submitRefusal, type Rights } from "../access/principal.ts";
import { provenStandingOrder, type StandingOrder } from "../access/standing-order.ts";
import type { ListedJob } from "../client/index.ts";
import type { Access } from "../domain/fleet/access-schema.ts";
import type { JobFile } from "../domain/job/job-file.ts";
import { OrbweaverError } from "../domain/values/failure.ts";
import {
  CRON_LABEL,
  cronJobId,
  type CronActivities,
  type CronInput,
  type CronOutcome,
  type CronTerms,
} from "../protocol/cron.ts";
import { jobFacts, mayDo } from "./job-facts.ts";
import { insist, type ServedFleet } from "./route.ts";

export interface CronStarts {
  readonly served: ServedFleet;
  readonly access: () => Access;
  readonly audit: Pick<AuditLog, "add">;
}

/** Throws where Temporal or the fleet does not answer, to be asked again. */
export function cronStarter({ served, access, audit }: CronStarts): CronActivities["startCron"] {
  return async (input, atMs) => {
    const { cron } = input;
    const jobId = cronJobId(cron, atMs);
    const order = orderOf(served, input);
    const line = {
      who: order?.principal.name ?? "unknown",
      from: `schedule ${cron}`,
      act: "cron-start",
      job: jobId,
    };
    try {
      if (order === undefined)
        throw new OrbweaverError(
          "NOT_ALLOWED",
          `the standing signature of schedule ${cron} is forged, of another service, or revoked`,
        );
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

/** Undefined where it is not to be believed, or no more. */
export function orderOf(
  { fleet, ownKeys, revoked }: ServedFleet,
  { cron, terms, order: signed }: Pick<CronInput, "cron" | "terms" | "order">,
): StandingOrder | undefined {
  const order = provenStandingOrder(signed, terms, ownKeys());
  return order?.fleet === fleet && order.cron === cron && !revoked.has(order.number)
    ? order
    : undefined;
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
  if (await isHis(served, { jobId, name: principal.name })) return { kind: "submitted", jobId };
  const open = (await openJobs(served, cron)).filter(({ user }) => user === principal.name);
  const last = open[0]?.jobId;
  // Under `queue` one waits behind the one that runs.
  const most = { skip: 0, queue: 1, allow: Infinity, replace: Infinity }[overlap];
  if (last !== undefined && open.length > most) return { kind: "skipped", former: last };
  const before = overlap === "queue" || overlap === "replace" ? open : [];
  const job: JobFile = {
    ...labelled(file, cron),
    ...(before.length > 0 && { after: before.map((each) => ({ job: each.jobId, on: "end" })) }),
  };
  await client.submit(job, {
    idempotencyKey: jobId,
    signer: () => served.signerOf(principal),
    maySee: (former) => mayDo(served, { principal, rights }, { act: "see", jobId: former }),
    admit: ({ spec, fleet }) => {
      insist(submitRefusal(principal, rights, spec));
      const fleets = [fleet, ...(spec.cells?.fleets ?? [])];
      insist(fleetsRefusal(principal, rights, { home: served.fleet, fleets }));
      accept();
    },
  });
  // After the new one is there: what is refused replaces nothing.
  if (overlap === "replace")
    for (const { jobId: former } of open) await client.job(former, principal.name).cancel();
  return { kind: "submitted", jobId };
}

/** The job as each time submits it. */
export const labelled = (file: JobFile, cron: string): JobFile => ({
  ...file,
  labels: { ...file.labels, [CRON_LABEL]: cron },
});

async function isHis(
  served: ServedFleet,
  { jobId, name }: { readonly jobId: string; readonly name: string },
): Promise<boolean> {
  try {
    return (await jobFacts(served, jobId)).user === name;
  } catch (error) {
    if (error instanceof OrbweaverError && error.code === "NOT_FOUND") return false;
    throw error;
  }
}

/** The newest first. */
async function openJobs({ client }: ServedFleet, cron: string): Promise<readonly ListedJob[]> {
  const open: ListedJob[] = [];
  for await (const job of client.list({ labels: [`${CRON_LABEL}=${cron}`] })) open.push(job);
  return open;
}
