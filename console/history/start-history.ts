/**
 * @file Keeps a fleet's history database beside the follower: what happened while no console ran is read from Temporal first.
 *
 * The cursor moves only once everything before it has been read; until then a console that starts again begins at the former one.
 */

import type { Client } from "@temporalio/client";
import type { PayloadCodec } from "@temporalio/common";
import { setTimeout as sleep } from "node:timers/promises";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import type { Folded } from "../follow/fleet-run.ts";
import { USER_KEY } from "../../client/search-keys.ts";
import { isGone, isServersFault } from "../follow/history-pages.ts";
import { readJobPage } from "../job/follow-job.ts";
import type { ReadEarlierRun } from "../past/earlier-run.ts";
import type { IdleRule } from "../../domain/fleet/fleet.ts";
import type { JobNoticeRule } from "../../domain/fleet/job-notices.ts";
import type { NoticeTarget } from "../../domain/fleet/notify-schema.ts";
import type { TenantId } from "../../domain/values/ids.ts";
import type { IdleJob } from "../use/idle-jobs.ts";
import type { AddedUse } from "../use/use-book.ts";
import { createDelivery } from "../notices/deliver.ts";
import { createJobAddresses, noticesInHistory } from "../notices/job-addresses.ts";
import { createJobSender, recipientNamed, type JobRecipient } from "../notices/job-recipient.ts";
import { createOutbox, OLDEST_MS } from "../notices/outbox.ts";
import { createSender } from "../notices/send.ts";
import type { JobPage } from "../../page/job-wire.ts";
import { jobTrace } from "../traces/job-trace.ts";
import { sendTrace, type TraceTarget } from "../traces/trace-target.ts";
import { openHistory, type Cursor, type NoticeRow } from "./database.ts";
import { jobRecords } from "./job-records.ts";
import { createKeeper, type HistoryKeeper } from "./keeper.ts";
import type { Tally } from "./tallies.ts";

interface BegunRun {
  readonly runId: string;
  readonly ledger: Ledger;
  readonly startedAtMs: number;
  readonly previousRunId: string | undefined;
}

export interface KeptHistory {
  readonly began: (run: BegunRun) => void;
  readonly folded: (folded: readonly Folded[], ledger: Ledger, cursor: Cursor) => void;
  /** Tells those whom `notify:` names of it. */
  readonly idle: (job: IdleJob) => void;
  readonly used: (uses: readonly AddedUse[]) => void;
  /** Undefined where the database cannot be read. */
  readonly tallies: () => readonly Tally[] | undefined;
  /** Writes what has gathered. */
  readonly close: () => Promise<void>;
}

export interface HistoryOptions {
  readonly file: string;
  readonly client: Client;
  readonly codecs: readonly PayloadCodec[];
  readonly fleet: string;
  readonly signal: AbortSignal;
  readonly readEarlier: ReadEarlierRun;
  /** Who is told of what; absent: nobody. */
  readonly notify?: NotifyOptions;
  /** Who is sent the trace of each job that ends; absent: nobody. */
  readonly traces?: TraceTarget;
  readonly say: (line: string) => void;
}

export interface NotifyOptions {
  /** As they stand in the fleet file now. */
  readonly targets: () => readonly NoticeTarget[];
  /** Which addresses jobs may name. */
  readonly jobRules: () => readonly JobNoticeRule[];
  /** What becomes of idle jobs, by tenant. */
  readonly idle: () => ReadonlyMap<TenantId, IdleRule>;
  /** Of that file. */
  readonly folder: string;
}

const RETRY_MS = 1_000;
const WRITE_EVERY_MS = 2_000;
const FORGET_EVERY_MS = 3_600_000;
/** Addresses of jobs that one round begins with. */
const MOST_ADDRESSES = 50;
const KEPT_NOTICES_MS = 7 * OLDEST_MS;
/** Read back at most, where the last console ended long ago. */
const MOST_RUNS = 200;

export async function startHistory(options: HistoryOptions): Promise<KeptHistory> {
  const { file, client, codecs, fleet, signal, readEarlier, notify, traces, say } = options;
  const database = await openHistory(file, {
    isNew: true,
    owner: { namespace: client.options.namespace, fleet },
  });
  const sinceMs =
    notify === undefined && traces === undefined ? 0 : database.noticesSince(Date.now());
  const outbox =
    notify &&
    createOutbox({
      fleet,
      targets: notify.targets,
      jobRules: notify.jobRules,
      addresses: createJobAddresses(noticesInHistory(client)),
      sinceMs,
      nowMs: Date.now,
    });
  const keeper = createKeeper(
    database,
    async (job) => {
      const page = await readJobPage({ client, codecs, fleet, job, signal });
      return page && { ...jobRecords(page), notices: tracesOf(page) };
    },
    { outbox, readUser: (job) => userOf(client, job) },
  );
  const folder = notify?.folder ?? "";
  const toTarget = createSender(folder, signal);
  const toJob = createJobSender({ folder, signal, rules: () => notify?.jobRules() ?? [] });
  const delivery = createDelivery<NoticeTarget | JobRecipient | TraceTarget>({
    ...{ database, signal, say },
    send(to, row, nowMs) {
      if ("service" in to) return sendTrace(to, row, signal);
      return "shownAs" in to ? toJob(to, row, nowMs) : toTarget(to, row, nowMs);
    },
    nowMs: Date.now,
  });
  const rounds = new Set<Promise<void>>();
  let forgotAtMs = 0;
  let lastAddress = "";
  let catching: Promise<void> | undefined;
  let isCaughtUp = false;
  let trouble = "";
  let keeping: Promise<void> | undefined;

  const timer = setInterval(() => void keep().then(tell).catch(sayTrouble), WRITE_EVERY_MS);

  /** One at a time; what could not be written stays for the next. */
  function keep(): Promise<void> {
    keeping ??= keeper
      .keep(Date.now())
      .then(() => (trouble = ""))
      .catch(sayTrouble)
      .then(() => (keeping = undefined));
    return keeping;
  }

  /** Beside the books: a slow target holds up only notices. */
  function tell(): void {
    if ((notify === undefined && traces === undefined) || signal.aborted) return;
    const nowMs = Date.now();
    if (nowMs > forgotAtMs + FORGET_EVERY_MS) {
      forgotAtMs = nowMs;
      database.forgetNotices(nowMs - KEPT_NOTICES_MS);
    }
    const isJobs = notify !== undefined && notify.jobRules().length > 0;
    // In turns, or many that fail would hold up those that come behind them.
    const limits = { nowMs, most: MOST_ADDRESSES, after: lastAddress };
    const named = isJobs ? database.dueAddresses(limits) : [];
    lastAddress = named.at(-1) ?? "";
    const round = delivery
      .round([
        ...(notify?.targets() ?? []),
        ...named.map(recipientNamed),
        ...(traces === undefined ? [] : [traces]),
      ])
      .catch(sayTrouble)
      .finally(() => rounds.delete(round));
    rounds.add(round);
  }

  /** Of a job that ended since somebody is told. */
  function tracesOf(page: JobPage): readonly NoticeRow[] {
    const { job, run = "", ended } = page;
    if (traces === undefined || ended === undefined || ended.atMs < sinceMs) return [];
    const body = jobTrace(page, { fleet, service: traces.service });
    if (body === undefined) return [];
    return [{ id: `trace ${job} ${run}`, target: traces.name, atMs: ended.atMs, body }];
  }

  /** Once for each new trouble. */
  function sayTrouble(error: unknown): void {
    const why = error instanceof Error ? error.message : String(error);
    if (why !== trouble && !signal.aborted) say(`console: the history database: ${why}`);
    trouble = why;
  }

  function began({ runId, ledger, startedAtMs, previousRunId }: BegunRun): void {
    keeper.follow(ledger, startedAtMs);
    const until = database.cursor()?.run;
    catching ??= catchUp(keeper, readEarlier, {
      from: until === runId ? undefined : previousRunId,
      until,
      signal,
      say,
    }).then(() => void (isCaughtUp = !signal.aborted));
  }

  return {
    began(run) {
      // The page goes on without the books.
      try {
        began(run);
      } catch (error) {
        sayTrouble(error);
      }
    },
    folded(folded, ledger, cursor) {
      for (const one of folded) keeper.fold(one);
      keeper.now(ledger);
      if (isCaughtUp) keeper.reached(cursor);
    },
    idle: (job) => keeper.tell(outbox?.ofIdle(job) ?? []),
    used: keeper.used,
    tallies() {
      try {
        return database.tallies();
      } catch (error) {
        sayTrouble(error);
        return undefined;
      }
    },
    async close() {
      clearInterval(timer);
      await keeping;
      await keep();
      await Promise.all(rounds);
      database.close();
    },
  };
}

/** By what the server lists of a job: no history is read, and no worker woken. */
async function userOf(client: Client, job: string): Promise<string> {
  try {
    const { typedSearchAttributes } = await client.workflow.getHandle(job).describe();
    return typedSearchAttributes.get(USER_KEY) ?? "";
  } catch (error) {
    // Of another trouble it would be asked again and again, before the others.
    const cause = error instanceof Error ? error.cause : undefined;
    const fault = [error, cause].find((each) => isServersFault(each) && !isGone(each));
    if (fault !== undefined) throw fault;
    return "";
  }
}

/** Runs back to the one that was read last, that one included: it was read to some event. */
async function catchUp(
  keeper: HistoryKeeper,
  readEarlier: ReadEarlierRun,
  {
    from,
    until,
    signal,
    say,
  }: {
    readonly from: string | undefined;
    readonly until: string | undefined;
    readonly signal: AbortSignal;
    readonly say: (line: string) => void;
  },
): Promise<void> {
  let runId = from;
  let trouble = "";
  for (let runs = 0; runId !== undefined && runs < MOST_RUNS;) {
    const isLast = runId === until;
    try {
      const previous = await readEarlier(runId, { began: keeper.begin, folded: keeper.fold });
      runId = isLast ? undefined : previous;
      runs += 1;
    } catch (error) {
      // Temporal has it no more.
      if (isGone(error) || signal.aborted) return;
      const why = error instanceof Error ? error.message : String(error);
      const text = `console: run ${runId} of the fleet cannot be read for the history database: ${why}`;
      if (text !== trouble) say(text);
      trouble = text;
      // Of the server's and the database's errors each has a code; another one would come again.
      if (!(error instanceof Error && "code" in error)) return;
      // Ends early with the signal; rows that were told already are upserted.
      await sleep(RETRY_MS, undefined, { signal }).catch(() => undefined);
    }
  }
}
