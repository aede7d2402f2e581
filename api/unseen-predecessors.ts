/**
 * @file The jobs that a job waits for, as its viewers are shown them: whoever may see a job need not be allowed to see those.
 *
 * Of others neither id nor state is shown. A job that the server does not know any more is shown to the submitter of its follower alone, who named it.
 * Costs one question to the server for each job, and none for callers who see every job.
 */

import { jobRefusal } from "../access/principal.ts";
import type { ListedJob } from "../client/index.ts";
import type { ServiceJob } from "../client/service-client.ts";
import type { PendingReason } from "../domain/lease/pending.ts";
import { OrbweaverError } from "../domain/values/failure.ts";
import { jobId, type JobId } from "../domain/values/ids.ts";
import { allowed } from "./job-facts.ts";
import type { Call } from "./route.ts";

const HIDDEN = jobId("(hidden)");

/** Whether a job that `user` has named is hidden; one answer for each job. */
export type IsHidden = (job: JobId, user: string | undefined) => Promise<boolean>;

/** Undefined for a caller who sees every job. */
export function hiddenFrom({
  caller,
  served,
}: Pick<Call, "caller" | "served">): IsHidden | undefined {
  const { principal, rights } = caller;
  const anybody = { user: undefined, tenant: undefined };
  if (jobRefusal(principal, rights, { act: "see", job: anybody }) === undefined) return undefined;
  const refused = new Map<JobId, Promise<"no" | "yes" | "unknown">>();
  const ask = async (job: JobId): Promise<"no" | "yes" | "unknown"> => {
    try {
      await allowed(served, caller, { act: "see", jobId: job });
      return "no";
    } catch (error) {
      if (!(error instanceof OrbweaverError)) throw error;
      return error.code === "NOT_FOUND" ? "unknown" : "yes";
    }
  };
  return async (job, user) => {
    const asked = refused.get(job) ?? ask(job);
    refused.set(job, asked);
    const found = await asked;
    return found === "yes" || (found === "unknown" && user !== principal.name);
  };
}

/** `user`: the submitter, where that is known. */
export async function withoutUnseen(
  { view, ending }: ServiceJob,
  isHidden: IsHidden | undefined,
  user: string | undefined,
): Promise<ServiceJob> {
  if (isHidden === undefined) return { view, ending };
  const named = [...(view.after ?? []), ...(view.spec?.after ?? [])].map(({ job }) => job);
  const hidden = await hiddenOf(named, isHidden, user);
  if (hidden.size === 0) return { view, ending };
  const { after, spec, pending } = view;
  const { outcome } = ending;
  const isLost = outcome?.kind === "failed" && outcome.failure.code === "DEPENDENCY_FAILED";
  const nameless = <Each extends { readonly job: JobId }>(each: Each): Each =>
    hidden.has(each.job) ? { ...each, job: HIDDEN } : each;
  return {
    view: {
      ...view,
      ...(after !== undefined && {
        after: after.map((each) => {
          if (!hidden.has(each.job)) return each;
          const { state: _state, ...rest } = each;
          return nameless(rest);
        }),
      }),
      ...(spec?.after !== undefined && { spec: { ...spec, after: spec.after.map(nameless) } }),
      ...(pending !== undefined && { pending: reasonWithout(pending, hidden) }),
    },
    ending: isLost
      ? {
          ...ending,
          outcome: { ...outcome, message: "a job that it waited for makes it impossible" },
        }
      : ending,
  };
}

/** A line of a list; its reason names the jobs that it has as holders, unless these are too many. */
export async function lineWithoutUnseen(
  line: ListedJob,
  isHidden: IsHidden | undefined,
): Promise<ListedJob> {
  const { pending, user } = line;
  if (isHidden === undefined || pending?.code !== "WaitingForJobs") return line;
  const hidden = await hiddenOf(pending.holders, isHidden, user);
  const { open = 0 } = pending.numbers;
  if (hidden.size === 0 && open <= pending.holders.length) return line;
  return { ...line, pending: reasonWithout(pending, hidden) };
}

async function hiddenOf(
  jobs: readonly JobId[],
  isHidden: IsHidden,
  user: string | undefined,
): Promise<ReadonlySet<JobId>> {
  const hidden = new Set<JobId>();
  for (const job of new Set(jobs)) if (await isHidden(job, user)) hidden.add(job);
  return hidden;
}

function reasonWithout(reason: PendingReason, hidden: ReadonlySet<JobId>): PendingReason {
  if (reason.code !== "WaitingForJobs") return reason;
  const { open = 0 } = reason.numbers;
  const holders = reason.holders.filter((job) => !hidden.has(job));
  return { ...reason, message: `waits for ${open} other job${open === 1 ? "" : "s"}`, holders };
}
