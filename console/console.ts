/**
 * @file The console of one fleet: follows its history, and shows it to browsers. It holds nothing that is not in the history.
 *
 * One follower for all browsers, so their number costs Temporal nothing. Changes are told in the pace of a screen, a few times a second.
 */

import type { Client } from "@temporalio/client";
import type { PayloadCodec } from "@temporalio/common";
import type { BearerRule } from "../access/bearer.ts";
import type { FleetClient } from "../client/index.ts";
import type { IdleRule } from "../domain/fleet/fleet.ts";
import { MOST_ARCHIVE_BYTES } from "../domain/fleet/keep.ts";
import type { JobId, TenantId } from "../domain/values/ids.ts";
import { parsedJson } from "../lib/parsed-json.ts";
import type { Facts, Message } from "../page/wire.ts";
import { unblock } from "../scheduling/explain/remedies.ts";
import type { Ledger } from "../scheduling/ledger/ledger.ts";
import { fleetWorkflowId } from "../protocol/messages.ts";
import { followFleet } from "./follow/follower.ts";
import { createFleetMetrics } from "./metrics/fleet-metrics.ts";
import { createHub, KEPT_CHANGES } from "./http/hub.ts";
import { ordersBy } from "./http/orders.ts";
import { createJobStreams } from "./job/job-streams.ts";
import { createLogStreams } from "./job/log-stream.ts";
import {
  isOwnersAlone,
  json,
  plain,
  startHttpConsole,
  type Answer,
  type HttpConsole,
  type HttpConsoleOptions,
  type Post,
  type Stream,
} from "./http/server.ts";
import { startHistory, type KeptHistory, type NotifyOptions } from "./history/start-history.ts";
import { earlierRuns, runsOfTemporal } from "./past/earlier-run.ts";
import { createRunArchive, type RunArchive } from "./past/run-archive.ts";
import { createLeaseSpans } from "./past/lease-spans.ts";
import { createPast } from "./past/past.ts";
import { createShareSamples } from "./past/share-samples.ts";
import { decisionOf } from "./view/decisions.ts";
import { hasJob } from "./view/rows.ts";
import { followUse } from "./use/follow-use.ts";
import { createUseBook } from "./use/use-book.ts";
import { idleJobs } from "./use/idle-jobs.ts";
import { idleCare, suspendBy } from "./use/idle-rules.ts";
import type { TraceTarget } from "./traces/trace-target.ts";
import { createTables } from "./view/tables.ts";
import { whatIfAnswer } from "./view/what-if.ts";

export interface ConsoleOptions {
  readonly client: Client;
  readonly fleet: string;
  readonly codecs: readonly PayloadCodec[];
  readonly host: string;
  readonly port: number;
  readonly rule: BearerRule;
  readonly tls?: HttpConsoleOptions["tls"];
  /** The page, built. */
  readonly files: ReadonlyMap<string, Answer>;
  /** Of Temporal's Web UI. */
  readonly uiUrl?: string;
  /** The file of the history database; absent: none is kept. */
  readonly historyFile?: string;
  /** Who is told of what; needs the history database. */
  readonly notify?: NotifyOptions;
  /** Who is sent traces of jobs; needs the history database. */
  readonly traces?: TraceTarget;
  /**
   * In whose name idle jobs are suspended, whoever may look; and logs are read and orders of the page carried out, where the owner alone may look.
   * Absent: nothing of that.
   */
  readonly actor?: () => FleetClient;
  readonly say: (line: string) => void;
}

/** What happens within this time after a look is told together; what comes later, at once. */
const TELL_EVERY_MS = 100;
/** What is told late (see `tables.ts`) is looked for so often. */
const LOOK_EVERY_MS = 1_000;
const MOST_JOB_FILE = 256 * 1024;

/** Added to the name of the history database: a folder of the archive's alone. */
const RUNS_FOLDER = ".runs";
/** The page names no more idle jobs. */
const MOST_IDLE = 100;
const NO_RULES: ReadonlyMap<TenantId, IdleRule> = new Map();

const UNREAD = "the fleet's history has not been read yet";

export async function startConsole(options: ConsoleOptions): Promise<HttpConsole> {
  const { client, fleet, codecs, host, port, rule, files, say } = options;
  const actor = isOwnersAlone(rule) ? options.actor : undefined;
  const tables = createTables();
  const metrics = createFleetMetrics();
  const hub = createHub<Message>(tables.snapshot, KEPT_CHANGES);
  const ending = new AbortController();
  const { signal } = ending;
  const fromTemporal = runsOfTemporal({ client, fleet, signal });
  const archive =
    options.historyFile === undefined ? undefined : archiveBeside(options.historyFile);
  const readEarlier = earlierRuns(archive?.pages ?? fromTemporal, codecs);
  const past = createPast(readEarlier);
  const spans = createLeaseSpans();
  const shares = createShareSamples();
  const useBook = createUseBook();
  const kept = await keptHistory();
  const care = idleCare({
    tell: kept?.idle,
    suspend: options.actor && suspendBy(options.actor),
    say,
  });
  let idle: Facts["idle"];
  let keeping: Promise<void> = Promise.resolve();
  let ledger: Ledger | undefined;
  let at = { runId: "0", event: 0 };
  let atMs = 0;
  let trouble: string | undefined;
  let isCurrent = false;
  let timer: NodeJS.Timeout | undefined;
  let lookedAtMs = 0;

  const jobs = createJobStreams({
    client,
    codecs,
    fleet,
    isKnown: (job) => ledger !== undefined && hasJob(ledger, job),
  });
  const streams = new Map<string, Stream>([
    ["/api/events", (_url, response, seen) => hub.add(response, seen)],
    [
      "/api/job-events",
      ({ searchParams }, response, seen) => jobs.add(searchParams.get("job") ?? "", response, seen),
    ],
  ]);
  const posts = new Map<string, Post>([["/api/what-if", { most: MOST_JOB_FILE, answer: whatIf }]]);
  if (actor !== undefined) {
    const logs = createLogStreams(actor);
    streams.set("/api/logs", logs.add);
    posts.set("/api/orders", ordersBy(actor));
  }
  const { tls } = options;
  const http = await startHttpConsole({
    ...{ host, port, rule, files, streams, posts, answer },
    ...(tls !== undefined && { tls }),
  });
  const looks = setInterval(look, LOOK_EVERY_MS);
  const following = followFleet({
    client,
    fleet,
    codecs,
    signal,
    listener: {
      began(run) {
        ledger = run.ledger;
        past.begin(run);
        spans.begin(run.startedAtMs);
        kept?.began(run);
        keepRuns(run.previousRunId);
        at = { runId: run.runId, event: 0 };
        atMs = Math.max(atMs, run.startedAtMs);
        soon();
      },
      folded(runId, { task, folded, ledger: reached }) {
        for (const one of folded) {
          metrics.fold(one);
          tables.noteGrants(one.ledger);
          past.add(one);
          spans.add(one);
          const row = decisionOf(one);
          if (row !== undefined) tables.note(row);
        }
        kept?.folded(folded, reached, {
          run: runId,
          event: task.lastEvent,
          atMs: task.startedAtMs,
        });
        shares.see(reached, task.startedAtMs);
        ledger = reached;
        at = { runId, event: task.lastEvent };
        atMs = Math.max(atMs, task.startedAtMs);
        soon();
      },
      reached(why) {
        trouble = why;
        soon();
      },
      current: (is) => void (isCurrent = is),
      diverged: (runId, why) => say(`console: run ${runId} cannot be followed exactly: ${why}`),
    },
  });
  // Not awaited at the end: a call to a server that is away would hold it up.
  void followUse({
    ...{ client, fleet, signal },
    shape: () => ledger?.shape,
    queueOf: (host) => ledger?.hosts.get(host)?.agent?.orderQueue,
    onUse(use) {
      if (ledger === undefined) return;
      tables.noteUse(use);
      metrics.noteUse(use);
      // By an old ledger a job's use would be judged on GPUs that it has given back.
      const rules = (isCurrent ? options.notify?.idle() : undefined) ?? NO_RULES;
      const found = idleJobs(ledger, use, { rules, nowMs: Date.now() });
      idle = found.slice(0, MOST_IDLE).map(({ job, rule }) => ({ job, act: rule.act }));
      if (isCurrent) {
        care(found);
        kept?.used(useBook.look(ledger, use, Date.now()));
      }
      soon();
    },
  });
  function archiveBeside(historyFile: string): RunArchive {
    const folder = `${historyFile}${RUNS_FOLDER}`;
    return createRunArchive({ folder, mostBytes: MOST_ARCHIVE_BYTES, fromTemporal });
  }

  /** Beside everything else; what fails is tried again when the next run begins. */
  function keepRuns(runId: string | undefined): void {
    keeping = keeping
      .then(() => archive?.keep(runId))
      .catch((error: unknown) => {
        if (signal.aborted) return;
        const why = error instanceof Error ? error.message : String(error);
        say(`console: the history of a run is not archived yet: ${why}`);
      });
  }

  /** The page is worth more than its books: it is shown without them where they cannot be kept. */
  async function keptHistory(): Promise<KeptHistory | undefined> {
    const { historyFile: file, notify, traces } = options;
    if (file === undefined) return undefined;
    try {
      return await startHistory({
        ...{ file, client, codecs, fleet, signal, readEarlier, say },
        ...(notify && { notify }),
        ...(traces && { traces }),
      });
    } catch (error) {
      say(`console: no history is kept: ${error instanceof Error ? error.message : String(error)}`);
      return undefined;
    }
  }

  function soon(): void {
    timer ??= setTimeout(look, lookedAtMs + TELL_EVERY_MS - performance.now());
  }

  function look(): void {
    clearTimeout(timer);
    timer = undefined;
    if (ledger === undefined) return;
    lookedAtMs = performance.now();
    const message = tables.look(ledger, facts(), Date.now());
    if (message !== undefined) hub.tell(message, at);
    // Shares change with time alone, too; before the history has been read up to now, its own times come.
    if (trouble === undefined && atMs > 0) shares.see(ledger, Math.max(atMs, Date.now()));
  }

  function facts(): Facts {
    const { uiUrl } = options;
    const reach = past.reach();
    const temporalUrl = `${uiUrl ?? ""}/namespaces/${encodeURIComponent(client.options.namespace)}/workflows/`;
    return {
      fleet,
      atMs,
      ...(trouble !== undefined && { trouble }),
      ...(uiUrl !== undefined && { temporalUrl }),
      ...(reach !== undefined && { past: reach }),
      ...(actor !== undefined && { mayAct: true as const }),
      ...(idle !== undefined && idle.length > 0 && { idle }),
    };
  }

  async function pastAnswer(at: string): Promise<Answer> {
    if (!/^\d{1,16}$/.test(at))
      return plain(400, "at: a time in milliseconds since 1970 is needed");
    const shown = await past.at(Number(at), facts());
    return shown === undefined ? plain(404, "nothing is known of that time") : json(shown);
  }

  async function whatIf(body: string): Promise<Answer> {
    await Promise.resolve();
    if (ledger === undefined) return plain(503, UNREAD);
    const said = parsedJson(body);
    if (typeof said !== "object" || said === null || !("job" in said)) return plain(400, "no job");
    return json(whatIfAnswer(ledger, String(said.job), Date.now()));
  }

  async function answer(url: URL): Promise<Answer | undefined> {
    const { pathname, searchParams } = url;
    if (pathname === "/api/state")
      return json({
        fleet,
        workflow: fleetWorkflowId(fleet),
        ...at,
        browsers: hub.count(),
        jobs: jobs.count(),
        toldBytes: hub.toldBytes(),
      });
    if (pathname === "/api/snapshot") return json(tables.snapshot());
    if (pathname === "/api/past") return pastAnswer(searchParams.get("at") ?? "");
    if (pathname === "/api/shares") return json({ samples: shares.all() });
    if (!["/metrics", "/api/changes", "/api/host"].includes(pathname)) return undefined;
    if (ledger === undefined) return plain(503, UNREAD);
    if (pathname === "/api/host") return json(spans.of(searchParams.get("host") ?? "", ledger));
    const nowMs = Date.now();
    if (pathname === "/metrics")
      return metrics.expose(ledger, {
        ...{ nowMs, atMs, isReached: trouble === undefined },
        tallies: kept?.tallies(),
      });
    const job = searchParams.get("job") ?? "";
    return json({ job, changes: unblock(ledger, job as JobId, { nowMs }) });
  }

  return {
    port: http.port,
    async close() {
      ending.abort();
      clearInterval(looks);
      clearTimeout(timer);
      hub.close();
      jobs.close();
      await http.close();
      await Promise.all([following, keeping]);
      await kept?.close();
    },
  };
}
