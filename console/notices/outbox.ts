/**
 * @file Which notices go to whom: rows of the history database, written with the cursor up to which the history was read, so that none is lost
 * and none is told anew when a console starts again.
 *
 * What happened before anybody was to be told, or more than a day ago, is not told. Those whom the fleet file names are known at once; for those whom jobs
 * name, the notices of jobs are put by until the jobs' files are read.
 */

import { createHash } from "node:crypto";
import { ruleOf, type JobNoticeRule } from "../../domain/fleet/job-notices.ts";
import type { NoticeTarget } from "../../domain/fleet/notify-schema.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import type { Folded } from "../follow/fleet-run.ts";
import type { IdleJob } from "../use/idle-jobs.ts";
import type { JobRecord, NoticeRow } from "../history/database.ts";
import type { JobAddresses } from "./job-addresses.ts";
import { nameOf } from "./job-recipient.ts";
import {
  endNotice,
  idleNotice,
  isFor,
  isTold,
  noticesOf,
  waitNotice,
  type Notice,
} from "./notice.ts";

export interface Outbox {
  readonly ofEvent: (folded: Pick<Folded, "event" | "before" | "ledger">) => readonly NoticeRow[];
  /** Of jobs that have waited for too long by now, each once. */
  readonly ofQueue: (ledger: Ledger, nowMs: number) => readonly NoticeRow[];
  /** Fails with the trouble of reading the job's file. */
  readonly ofEnd: (record: JobRecord) => Promise<readonly NoticeRow[]>;
  readonly ofIdle: (job: IdleJob) => readonly NoticeRow[];
  /**
   * Of what was put by until now, and of waits of jobs, to those whom the jobs name. Fails with the trouble of reading their files; all is there for the
   * next call then.
   */
  readonly ofJobs: (ledger: Ledger | undefined, nowMs: number) => Promise<readonly NoticeRow[]>;
  /** Whether something has been put by since. */
  readonly hasMore: () => boolean;
}

export interface OutboxOptions {
  readonly fleet: string;
  /** Asked once for each event: the answer may cost a look at a file. */
  readonly targets: () => readonly NoticeTarget[];
  /** Which addresses jobs may name; none: their files are not read. */
  readonly jobRules?: () => readonly JobNoticeRule[];
  readonly addresses?: JobAddresses;
  /** What is older is not told. */
  readonly sinceMs: number;
  readonly nowMs: () => number;
}

/** Nobody wants to hear of it later. */
export const OLDEST_MS = 86_400_000;
const MOST_REMEMBERED = 100_000;
/** Waiting jobs whose files one call reads; their waits are told a little later, and the books are not held up. */
const MOST_READ = 200;

export function createOutbox({
  fleet,
  targets,
  jobRules = () => [],
  addresses,
  sinceMs,
  nowMs,
}: OutboxOptions): Outbox {
  const waited = new Set<string>();
  let putBy: Notice[] = [];

  const isTimely = ({ atMs }: Notice): boolean => atMs >= Math.max(sinceMs, nowMs() - OLDEST_MS);

  /** Rows for those whom the fleet file names. */
  const addressed = (
    notices: readonly Notice[],
    to: readonly NoticeTarget[],
  ): readonly NoticeRow[] =>
    notices
      .filter(isTimely)
      .flatMap((notice) =>
        to
          .filter((target) => isFor(target, notice))
          .map(({ name }) => rowOf(notice, { fleet, target: name })),
      );

  function putByForJobs(notices: readonly Notice[]): void {
    const ofJobs = notices.filter((notice) => notice.job !== undefined && isTimely(notice));
    if (ofJobs.length > 0 && addresses !== undefined && jobRules().length > 0)
      putBy.push(...ofJobs);
  }

  /** Once for each key. */
  function isFresh(key: string): boolean {
    if (waited.has(key)) return false;
    if (waited.size >= MOST_REMEMBERED) waited.clear();
    waited.add(key);
    return true;
  }

  /** Rows for those whom the job names; it was read. */
  function toJob(notice: Notice, rules: readonly JobNoticeRule[]): readonly NoticeRow[] {
    return (addresses?.of(notice.job?.id ?? "") ?? [])
      .filter(({ on, address }) => isTold(on, notice) && ruleOf(address, rules) !== undefined)
      .map((entry) => rowOf(notice, { fleet, target: nameOf(entry) }));
  }

  /** Of jobs that are known to want it. */
  function jobWaits(
    { requests, reasons }: Ledger,
    now: number,
    rules: readonly JobNoticeRule[],
  ): readonly NoticeRow[] {
    return [...requests.values()].flatMap((request) =>
      (addresses?.of(request.jobId) ?? []).flatMap((entry): readonly NoticeRow[] => {
        const { on, waitingMs, address } = entry;
        if (waitingMs === undefined || !on.includes("waiting")) return [];
        const notice = waitNotice(request, reasons.get(request.jobId), {
          nowMs: now,
          afterMs: waitingMs,
        });
        if (notice === undefined || !isTimely(notice) || ruleOf(address, rules) === undefined)
          return [];
        const target = nameOf(entry);
        return isFresh(`${target} ${notice.id}`) ? [rowOf(notice, { fleet, target })] : [];
      }),
    );
  }

  return {
    ofEvent: (folded) => {
      const to = targets();
      if (to.length === 0 && jobRules().length === 0) return [];
      const notices = noticesOf(folded);
      putByForJobs(notices);
      return addressed(notices, to);
    },
    ofIdle: (job) => {
      const notices = [idleNotice(job, nowMs())];
      putByForJobs(notices);
      return addressed(notices, targets());
    },
    async ofEnd(record) {
      const notice = endNotice(record);
      const rules = jobRules();
      const isJobs = rules.length > 0 && addresses !== undefined && isTimely(notice);
      if (isJobs) await addresses.learn([record.job]);
      return [...addressed([notice], targets()), ...(isJobs ? toJob(notice, rules) : [])];
    },
    ofQueue: (ledger, now) =>
      targets().flatMap((target) => {
        const { name, waiting: afterMs } = target;
        if (afterMs === undefined || !target.on.includes("waiting")) return [];
        const fresh = [...ledger.requests.values()].flatMap((request): readonly Notice[] => {
          const reason = ledger.reasons.get(request.jobId);
          const notice = waitNotice(request, reason, { nowMs: now, afterMs });
          return notice !== undefined && isFresh(`${name} ${notice.id}`) ? [notice] : [];
        });
        return addressed(fresh, [target]);
      }),
    async ofJobs(ledger, now) {
      const rules = jobRules();
      if (addresses === undefined || rules.length === 0) {
        putBy = [];
        return [];
      }
      const unread = [...(ledger?.requests.keys() ?? [])].filter(
        (job) => addresses.of(job) === undefined,
      );
      await addresses.learn(unread.slice(0, MOST_READ));
      await addresses.learn(putBy.map(({ job }) => job?.id ?? ""));
      const isRead = ({ job }: Notice): boolean => addresses.of(job?.id ?? "") !== undefined;
      const read = putBy.filter(isRead);
      putBy = putBy.filter((notice) => !isRead(notice));
      // A wait counts as told from here on, so nothing may fail after it.
      return [
        ...(ledger === undefined ? [] : jobWaits(ledger, now, rules)),
        ...read.flatMap((notice) => toJob(notice, rules)),
      ];
    },
    hasMore: () => putBy.length > 0,
  };
}

/** Equal for the same notice of consoles that keep databases of their own; ids alone are alike in fleets of the same name. */
const keyOf = ({ fleet, id, atMs }: { readonly fleet: string } & Pick<Notice, "id" | "atMs">) =>
  createHash("sha256")
    .update(`${fleet} ${id} ${String(atMs)}`)
    .digest("hex")
    .slice(0, 32);

function rowOf(
  notice: Notice,
  { fleet, target }: { readonly fleet: string; readonly target: string },
): NoticeRow {
  const { id, event, atMs, text, job, hosts, facts } = notice;
  const body = JSON.stringify({
    id,
    key: keyOf({ fleet, id, atMs }),
    fleet,
    event,
    at: new Date(atMs).toISOString(),
    text,
    ...(job && { job }),
    ...(hosts && { hosts }),
    ...(facts && { facts }),
  });
  return { id, target, atMs, body };
}
