/**
 * @file The storm: a fleet of real processes, a schedule of faults from a seed, and an inspection for errors afterwards.
 *
 * The folder of a storm holds all logs, the database, the schedule, the faults with their times, and the witness's record. It is removed
 * when no error was found, unless the caller named it.
 */

import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { OrbweaverError } from "../../domain/values/failure.ts";
import type { Environment } from "../../workers/server/environment.ts";
import { drawFrom, type Draw } from "../statistics.ts";
import { release } from "./arrivals.ts";
import { openBooks, type StormBooks } from "./books.ts";
import type { Recovery } from "./control-faults.ts";
import { replayAll, type Replays } from "./histories.ts";
import { killAll, leftProcesses } from "../live/left-processes.ts";
import { inspect, readWitness, type Findings } from "./inspection.ts";
import { insist } from "./insistence.ts";
import { drawSchedule, type FaultKind, type Step } from "./schedule.ts";
import { openSite, untilAnswering, type Site } from "./site.ts";
import { faultMix, type FaultMix } from "./fault-mix.ts";
import type { StormJob } from "./workload.ts";
import { LATE_ANSWERS_MS } from "../../scheduling/ledger/apply/ledger-recovery.ts";

interface StormOptions {
  readonly seed: number;
  readonly faults: number;
  readonly meanGapMs?: number;
  /** Only these; all when absent. */
  readonly kinds?: readonly FaultKind[];
  /** Instead of a drawn schedule. */
  readonly steps?: readonly Step[];
  /** Job histories that are replayed. */
  readonly replayedJobs?: number;
  /** Kept in every case; a temporary folder when absent. */
  readonly folder?: string;
  readonly say?: (line: string) => void;
  readonly interrupted?: AbortSignal;
  readonly env?: Environment;
}

export interface StormOutcome {
  readonly seed: number;
  readonly faults: number;
  readonly faultsByKind: Readonly<Record<string, number>>;
  readonly jobs: number;
  /** Processes that the witness saw start. */
  readonly starts: number;
  readonly findings: Findings;
  /** Differences between the console's books and the histories; absent where a run cannot be read any more. */
  readonly books?: readonly string[];
  readonly recoveries: readonly Recovery[];
  readonly replays: Replays;
  /** Ends of workers and agents that the storm had not killed; a supervisor started them again. */
  readonly ownEnds: readonly string[];
  /** Where everything lies; absent when nothing was found and the folder was not asked for. */
  readonly folder?: string;
}

const DEFAULTS = Object.freeze({
  meanGapMs: 1_500,
  /** Jobs that wait or run at a time: more than fit. */
  openJobs: 9,
  replayedJobs: 100,
});
const RESTART_PAUSE_MS = [100, 1_500] as const;
/** Every job has ended by then, and every lease is free, on a busy machine too; one that was reset waits for what a lost ledger may have given (docs/decisions/0257). */
const SETTLE_MS = LATE_ANSWERS_MS + 180_000;
const LOOK_MS = 500;

export async function runStorm(options: StormOptions): Promise<StormOutcome> {
  const { seed, faults, say = () => undefined, env = process.env } = options;
  const folder = options.folder ?? mkdtempSync(join(tmpdir(), "orbweaver-storm-"));
  mkdirSync(folder, { recursive: true });
  if (readdirSync(folder).length > 0) {
    throw new OrbweaverError("BAD_INPUT", `${folder} is not empty; a storm needs a new folder`);
  }
  const meanGapMs = options.meanGapMs ?? DEFAULTS.meanGapMs;
  // A stream for each concern: how many jobs were drawn changes no fault.
  const [schedule, workload, pauses, samples] = [1, 2, 3, 4].map((stream) =>
    drawFrom(seed * 16 + stream),
  ) as [Draw, Draw, Draw, Draw];
  const steps =
    options.steps ??
    drawSchedule(schedule, {
      faults,
      meanGapMs,
      ...(options.kinds !== undefined && { kinds: options.kinds }),
    });
  writeFileSync(join(folder, "schedule.json"), JSON.stringify({ seed, steps }, undefined, 1));
  say(`storm ${String(seed)}: ${String(steps.length)} faults; all that it leaves is in ${folder}`);
  let outcome: StormOutcome;
  const site = await openSite({
    folder,
    isToBeUpgraded: steps.some(({ kind }) => kind === "upgrade"),
    env,
    restartPauseMs: () =>
      RESTART_PAUSE_MS[0] + pauses.unit() * (RESTART_PAUSE_MS[1] - RESTART_PAUSE_MS[0]),
  });
  let books: StormBooks | undefined;
  try {
    books = await openBooks(site, say);
    const storm = await faultMix(site, {
      steps,
      openJobs: DEFAULTS.openJobs,
      draw: workload,
      say,
      interrupted: options.interrupted ?? new AbortController().signal,
    });
    say("the storm is over; waiting for what is left of it");
    await settle(site, storm.jobs, say);
    const differences = await books.differences(storm.jobs);
    outcome = await lookBack(site, storm, {
      seed,
      ...(differences !== undefined && { books: differences }),
      replayedJobs: options.replayedJobs ?? DEFAULTS.replayedJobs,
      draw: samples,
    });
    writeFileSync(join(folder, "outcome.json"), JSON.stringify(outcome, undefined, 1));
  } finally {
    await books?.close();
    await site.close();
    // What a failed storm has left behind must not outlive it.
    killAll(leftProcesses(site.stateDir));
  }
  if (options.folder !== undefined || hasFindings(outcome)) return { ...outcome, folder };
  rmSync(folder, { recursive: true, force: true });
  return outcome;
}

/** Waits until every job has ended and nothing is leased or runs; what is not so by then is a finding. */
async function settle(
  site: Site,
  jobs: readonly StormJob[],
  say: (line: string) => void,
): Promise<void> {
  const untilMs = performance.now() + SETTLE_MS;
  let said = "";
  await untilAnswering(site).catch(() => undefined);
  while (performance.now() < untilMs) {
    await Promise.all(jobs.filter(({ isHeld }) => isHeld).map((job) => release(site, job)));
    const open = jobs.filter(({ isClosed }) => !isClosed);
    await Promise.all(
      open.map(async (job) => {
        const handle = site.client.workflow.getHandle(job.id);
        const described = await insist(site.client, () => handle.describe());
        job.isClosed = described?.status.name !== "RUNNING";
      }),
    );
    const ledger = await insist(site.client, () => site.orbweaver.fleet());
    const left = {
      jobs: jobs.filter(({ isClosed }) => !isClosed).length,
      leases: ledger?.leases.size ?? -1,
      requests: ledger?.requests.size ?? -1,
      processes: leftProcesses(site.stateDir).length,
    };
    if (Object.values(left).every((count) => count === 0)) return;
    const now = Object.entries(left)
      .map(([what, count]) => `${String(count)} ${what}`)
      .join(", ");
    if (now !== said) say(`left: ${now}`);
    said = now;
    await sleep(LOOK_MS);
  }
}

async function lookBack(
  site: Site,
  { jobs, counts, recoveries }: FaultMix,
  {
    seed,
    books,
    replayedJobs,
    draw,
  }: { seed: number; books?: readonly string[]; replayedJobs: number; draw: Draw },
): Promise<StormOutcome> {
  const findings = await inspect(site, { jobs, isUpgraded: counts.has("upgrade") });
  const replays = await replayAll(site.client, { folder: site.folder, jobs: replayedJobs, draw });
  return {
    seed,
    faults: [...counts.values()].reduce((sum, count) => sum + count, 0),
    faultsByKind: Object.fromEntries(counts),
    jobs: jobs.length,
    starts: readWitness(site).filter(({ kind }) => kind === "start").length,
    findings,
    ...(books !== undefined && { books }),
    recoveries,
    replays,
    ownEnds: site.supervisors.flatMap((supervisor) => supervisor.ownEnds()),
  };
}

export const hasFindings = ({ findings, books = [], replays }: StormOutcome): boolean =>
  books.length > 0 ||
  Object.values(findings).some((lines: readonly string[]) => lines.length > 0) ||
  replays.failed.length > 0;
