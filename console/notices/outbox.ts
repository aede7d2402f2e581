/**
 * @file Which notices go to whom: rows of the history database, written with the cursor up to which the history was read, so that none is lost
 * and none is told anew when a console starts again.
 *
 * What happened before anybody was to be told, or more than a day ago, is not told.
 */

import type { NoticeTarget } from "../../domain/fleet/notify-schema.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import type { Folded } from "../follow/fleet-run.ts";
import type { IdleJob } from "../use/idle-jobs.ts";
import type { JobRecord, NoticeRow } from "../history/database.ts";
import { endNotice, idleNotice, isFor, noticesOf, waitNotices, type Notice } from "./notice.ts";

export interface Outbox {
  readonly ofEvent: (folded: Pick<Folded, "event" | "before" | "ledger">) => readonly NoticeRow[];
  /** Of jobs that have waited for too long by now, each once. */
  readonly ofQueue: (ledger: Ledger, nowMs: number) => readonly NoticeRow[];
  readonly ofEnd: (record: JobRecord) => readonly NoticeRow[];
  readonly ofIdle: (job: IdleJob) => readonly NoticeRow[];
}

/** Nobody wants to hear of it later. */
export const OLDEST_MS = 86_400_000;
const MOST_REMEMBERED = 100_000;

export function createOutbox({
  fleet,
  targets,
  sinceMs,
  nowMs,
}: {
  readonly fleet: string;
  /** Asked once for each event: the answer may cost a look at a file. */
  readonly targets: () => readonly NoticeTarget[];
  /** What is older is not told. */
  readonly sinceMs: number;
  readonly nowMs: () => number;
}): Outbox {
  const waited = new Set<string>();

  const addressed = (
    notices: readonly Notice[],
    to: readonly NoticeTarget[],
  ): readonly NoticeRow[] =>
    notices
      .filter(({ atMs }) => atMs >= Math.max(sinceMs, nowMs() - OLDEST_MS))
      .flatMap((notice) =>
        to
          .filter((target) => isFor(target, notice))
          .map(({ name }) => rowOf(notice, { fleet, target: name })),
      );

  return {
    ofEvent: (folded) => {
      const to = targets();
      return to.length === 0 ? [] : addressed(noticesOf(folded), to);
    },
    ofEnd: (record) => {
      const to = targets();
      return to.length === 0 ? [] : addressed([endNotice(record)], to);
    },
    ofIdle: (job) => addressed([idleNotice(job, nowMs())], targets()),
    ofQueue: (ledger, now) =>
      targets().flatMap((target) => {
        if (target.waiting === undefined || !target.on.includes("waiting")) return [];
        const fresh = waitNotices(ledger, now, target.waiting).filter(({ id }) => {
          const key = `${target.name} ${id}`;
          if (waited.has(key)) return false;
          if (waited.size >= MOST_REMEMBERED) waited.clear();
          waited.add(key);
          return true;
        });
        return addressed(fresh, [target]);
      }),
  };
}

function rowOf(
  notice: Notice,
  { fleet, target }: { readonly fleet: string; readonly target: string },
): NoticeRow {
  const { id, event, atMs, text, job, hosts, facts } = notice;
  const body = JSON.stringify({
    id,
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
