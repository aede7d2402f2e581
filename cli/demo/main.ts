/**
 * @file The demo: jobs of a real trace on a measured fleet, as real processes, shown live.
 *
 * It uses the product's own commands in a state folder of its own and ignores the user's Temporal settings. Order: `orbweaver
 * up`, submissions in the trace's order of arrival, the display, a summary, `orbweaver down` (unless kept).
 */

import type { Client } from "@temporalio/client";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { OrbweaverClient, type Ledger } from "../../client/index.ts";
import { demoJobs, type DemoJob, type DemoWorkload } from "../../domain/trace/demo-workload.ts";
import { readPhillyTrace } from "../../domain/trace/parse-philly.ts";
import { isolatedConnection, openClient } from "../../workers/connection.ts";
import { packageRoot } from "../../workers/server/package-root.ts";
import { pendingSignal, type JobResult } from "../../protocol/messages.ts";
import { fleetPicture } from "../picture/fleet-picture.ts";
import { createBoard, whereOf, type Board, type DemoRow } from "./board.ts";
import {
  printSummary,
  summarise,
  type DemoEnd,
  type DemoFacts,
  type DemoSummary,
} from "./summary.ts";

const FIRST_ROW = 50_000;
const FLEET = "demo";
const REDRAW_MS = 400;
/** In the folder where the demo was started: the fleet when most jobs waited. */
const PICTURE = "orbweaver-demo.svg";
const root = packageRoot();

export interface DemoOptions {
  readonly isKept: boolean;
  readonly isJson: boolean;
}

/** Runs the demo; true when every job did what it should. */
async function runDemo({ isKept, isJson }: DemoOptions): Promise<boolean> {
  const startedAtMs = Date.now();
  const stateDir = await mkdtemp(path.join(tmpdir(), "orbweaver-demo-"));
  const show = isJson ? process.stderr : process.stdout;
  const { jobs, ...workload } = await readWorkload();
  sayWorkload({ jobs, ...workload });

  const interruption = new AbortController();
  process.once("SIGINT", () => {
    interruption.abort();
    say("\nstopping");
  });
  try {
    const up = await bringUp(stateDir);
    if (up.console !== undefined) say(`See the fleet at work in a browser: ${up.console}`);
    const connection = isolatedConnection({ address: up.address, namespace: up.namespace });
    const { client: temporal, close } = await openClient(connection);
    const orbweaver = new OrbweaverClient(temporal, { fleet: FLEET });
    const { shape } = await orbweaver.fleet();
    const totalGpus = shape.clusters
      .flatMap(({ hosts }) => hosts)
      .reduce((sum, host) => sum + host.gpuCount, 0);
    const beganAtMs = Date.now();
    const board = createBoard(show, totalGpus);
    const run: DemoRun = {
      orbweaver,
      temporal,
      interrupted: interruption.signal,
      rows: [],
      ends: [],
    };
    const busiest = await playJobs(run, jobs, board);
    const summary = summarise({
      ends: run.ends,
      workload,
      totalGpus,
      makespanMs: Date.now() - beganAtMs,
      startedAtMs,
      histories: await historiesOf(run),
      leasesLeft: (await orbweaver.fleet()).leases.size,
      up,
    });
    await close();
    if (isJson) process.stdout.write(`${JSON.stringify(summary, null, 2)}\n`);
    else printSummary(process.stdout, summary);
    if (busiest !== undefined) await writePicture(busiest);
    return isGood(summary, jobs.length) && !interruption.signal.aborted;
  } finally {
    if (isKept) sayKept(stateDir);
    else await orbweaverCommand(stateDir, ["down", "--stop-jobs", "--purge"]);
  }
}

const say = (line: string): void => void process.stderr.write(`${line}\n`);

function sayKept(stateDir: string): void {
  say(
    `\nThe fleet keeps running. Look around with:\n  export ORBWEAVER_STATE_DIR=${stateDir} ORBWEAVER_FLEET=${FLEET}\n  npx orbweaver list --all --isolated\nEnd it with:\n  npx orbweaver down --stop-jobs --purge`,
  );
}

interface DemoRun {
  readonly orbweaver: OrbweaverClient;
  readonly temporal: Client;
  readonly interrupted: AbortSignal;
  /** Submitted jobs, in order. */
  readonly rows: DemoRow[];
  readonly ends: DemoEnd[];
}

async function writePicture(seen: Seen): Promise<void> {
  try {
    await writeFile(PICTURE, fleetPicture({ fleet: FLEET, mode: "tenant", ...seen }));
    say(`${PICTURE}: the fleet and its queue when most jobs waited`);
  } catch (error) {
    say(`${PICTURE} could not be written here: ${messageOf(error)}`);
  }
}

interface Seen {
  readonly ledger: Ledger;
  readonly nowMs: number;
}

/** Submits the jobs at their times and shows them until all have ended; returns what it saw when most jobs waited. */
async function playJobs(
  run: DemoRun,
  jobs: readonly DemoJob[],
  board: Board,
): Promise<Seen | undefined> {
  const { orbweaver, interrupted, rows, ends } = run;
  let busiest: Seen | undefined;
  const submitting = submitAll(jobs, async (job) => await submitJob(run, job));
  while (!interrupted.aborted && ends.length < jobs.length) {
    const ledger = await orbweaver.fleet();
    for (const row of rows) updateRow(row, ledger);
    const nowMs = Date.now();
    if (ledger.requests.size > (busiest?.ledger.requests.size ?? -1)) busiest = { ledger, nowMs };
    board.update(rows, ledger, nowMs);
    await sleep(REDRAW_MS);
  }
  await submitting;
  board.update(rows, undefined, Date.now());
  board.close();
  return busiest;
}

async function submitJob(
  { orbweaver, temporal, interrupted, rows, ends }: DemoRun,
  job: DemoJob,
): Promise<void> {
  if (interrupted.aborted) return;
  const { jobId } = await orbweaver.submit(jobFile(job), {
    idempotencyKey: `philly-${String(job.row)}`,
  });
  const row: DemoRow = {
    jobId,
    class: "training",
    tenant: job.tenant,
    gpus: job.gpus,
    submittedAtMs: Date.now(),
    state: "submitted",
    where: "",
    code: "",
    waitedMs: 0,
  };
  rows.push(row);
  void temporal.workflow
    .getHandle(jobId)
    .result()
    .then(
      (result: JobResult) => {
        row.state = "completed";
        row.waitedMs = result.queuedMs;
        ends.push({ job, jobId, result });
      },
      (error: unknown) => {
        if (interrupted.aborted) return;
        row.state = "failed";
        ends.push({ job, jobId, error: messageOf(error) });
      },
    );
}

/** Brings the row of a job that has not ended up to date. */
function updateRow(row: DemoRow, ledger: Ledger): void {
  if (row.state === "completed" || row.state === "failed") return;
  const lease = [...ledger.leases.values()].find(({ jobId }) => jobId === row.jobId);
  const request = [...ledger.requests.values()].find(({ jobId }) => jobId === row.jobId);
  if (lease !== undefined) {
    // As the job's result will say it.
    row.waitedMs = Math.max(0, lease.grantedAtMs - row.submittedAtMs);
    row.state = "running";
    row.where = whereOf(lease);
  } else if (request !== undefined) {
    row.state = "waiting";
    row.code = ledger.reasons.get(request.jobId)?.code ?? "";
  }
}

async function historiesOf({ temporal, ends }: DemoRun): Promise<DemoFacts["histories"]> {
  return await Promise.all(
    ends.map(async ({ jobId }) => {
      const { events } = await temporal.workflow.getHandle(jobId).fetchHistory();
      const told = events?.filter(
        ({ workflowExecutionSignaledEventAttributes: signal }) =>
          signal?.signalName === pendingSignal.name,
      );
      return { events: events?.length ?? 0, waits: told?.length ?? 0 };
    }),
  );
}

async function readWorkload(): Promise<DemoWorkload> {
  const file = path.join(root, "data/traces/philly-2017-rows-50000-50999.csv");
  const trace = readPhillyTrace(await readFile(file, "utf8"), {
    source: file,
    firstRow: FIRST_ROW,
  });
  if (trace.kind === "refused")
    throw new Error(`${file} cannot be read: ${JSON.stringify(trace.problems)}`);
  return demoJobs(trace.rows);
}

function sayWorkload({
  jobs,
  gangCount,
  divisor,
  cappedCount,
  flooredCount,
  lastArrivalMs,
}: DemoWorkload): void {
  say(
    [
      `${String(jobs.length)} jobs of Microsoft's Philly trace (rows 50,000 to 50,999), in real arrival order:`,
      `${String(gangCount)} gangs of 2 to 24 GPUs and their one-GPU neighbours.`,
      `All times are divided by ${String(divisor)}: arrivals span ${(lastArrivalMs / 1000).toFixed(0)} s; durations are capped at 15 s`,
      `(${String(cappedCount)} jobs) and held above 0.2 s (${String(flooredCount)} jobs). Each job is real processes,`,
      "one for each GPU; the GPUs are simulated.",
    ].join("\n"),
  );
}

function jobFile({
  row,
  tenant,
  gpus,
  durationMs,
}: DemoJob): Parameters<OrbweaverClient["submit"]>[0] {
  return {
    name: `philly-${String(row)}`,
    tenant,
    class: "training",
    gang: { gpus },
    run: {
      command: [path.join(root, "data/demo/rank.sh"), (durationMs / 1000).toFixed(3), String(gpus)],
      checkpoint: { signal: "USR1", grace: "5s" },
      grace: "2s",
    },
  };
}

/** Submits each job at its time; jobs that arrive together keep their order. */
async function submitAll(
  jobs: readonly DemoJob[],
  submit: (job: DemoJob) => Promise<void>,
): Promise<void> {
  const beganAtMs = Date.now();
  const pending: Promise<void>[] = [];
  for (const job of jobs) {
    const waitMs = beganAtMs + job.arrivalMs - Date.now();
    if (waitMs > 0) await sleep(waitMs);
    pending.push(submit(job));
  }
  await Promise.all(pending);
}

export interface DemoUp {
  readonly address: string;
  readonly namespace: string;
  readonly ui?: string;
  readonly console?: string;
  readonly stateDir: string;
}

async function bringUp(stateDir: string): Promise<DemoUp> {
  const file = path.join(root, "data/fleets/demo.yaml");
  return JSON.parse(
    await orbweaverCommand(stateDir, ["up", file, "--isolated", "--json"]),
  ) as DemoUp;
}

/** Runs `orbweaver` in the demo's state folder; its progress goes to stderr, its answer is returned. */
async function orbweaverCommand(stateDir: string, args: readonly string[]): Promise<string> {
  const env = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !name.startsWith("TEMPORAL_")),
  );
  const child = spawn(process.execPath, [path.join(root, "dist/cli/main.js"), ...args], {
    env: { ...env, ORBWEAVER_STATE_DIR: stateDir, ORBWEAVER_FLEET: FLEET },
    stdio: ["ignore", "pipe", "inherit"],
    // A session of its own, because the demo itself handles Ctrl-C and then stops the fleet.
    detached: true,
  });
  let text = "";
  child.stdout.setEncoding("utf8");
  child.stdout.on("data", (chunk: string) => (text += chunk));
  const [code] = (await once(child, "close")) as [number | null];
  if (code !== 0) throw new Error(`orbweaver ${args[0] ?? ""} failed; see its messages above`);
  return text;
}

const isGood = ({ jobs, leasesLeft }: DemoSummary, count: number): boolean =>
  jobs.completed === count && jobs.failed === 0 && jobs.checkpoints === count && leasesLeft === 0;

const messageOf = (error: unknown): string => {
  const inner = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  return inner instanceof Error ? inner.message : String(inner);
};

if (process.argv[1]?.endsWith(path.join("cli", "demo", "main.js")) === true) {
  const flags = new Set(process.argv.slice(2));
  process.exitCode = (await runDemo({ isKept: flags.has("--keep"), isJson: flags.has("--json") }))
    ? 0
    : 1;
}
