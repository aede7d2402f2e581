/**
 * @file What a console takes while it shows the past of a large fleet: the very process that `up` starts, beside a Temporal server that has made-up histories of
 * that fleet. It follows half of the newest run, keeps those before in its archive, and shows instants of them; a browser reads along.
 */

import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { get, type IncomingMessage } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { isAlive } from "../../agent/system/process-identity.ts";
import { startWorker } from "../../cli/up/worker-process.ts";
import type { HistoryEvent } from "../../console/follow/workflow-task.ts";
import { fleetWorkflowId } from "../../protocol/messages.ts";
import { createConverters } from "../../workers/codec/converters.ts";
import { commandLine } from "../../workers/server/package-root.ts";
import { drawFreePort } from "../../workers/server/ports.ts";
import { atMost, barOf, REPORTED, unmeasured, type Bar } from "../bar.ts";
import type { BenchRequest } from "../bench.ts";
import { largeLedgers } from "../live/large-ledger.ts";
import { drawFrom, quantile } from "../statistics.ts";
import { serveHistories, type Histories } from "./served-histories.ts";
import { writtenRuns } from "./written-histories.ts";

const GPUS_PER_HOST = 8;
const RUNS = 3;
const MOST_MB = 120;
const INSTANTS = 20;
const FLEET = "large";
const LOOK_MS = 100;
const TARGET = { id: "console-memory", unit: "MB", target: atMost(MOST_MB) } as const;

interface Made {
  readonly histories: Histories;
  /** Of what is followed. */
  readonly lastEvent: number;
  /** Of the older runs alone, in milliseconds since 1970. */
  readonly instants: readonly number[];
}

/** In MB, the most until then, as the kernel counts it. */
interface Taken {
  /** Before any history. */
  readonly loaded: number;
  /** When the run has been followed. */
  readonly following: number;
  /** When the last instant has been shown. */
  readonly reading: number;
  /** Processor time of each instant, in milliseconds. */
  readonly instantMs: readonly number[];
}

export async function measureMemory(request: BenchRequest): Promise<readonly Bar[]> {
  if (!existsSync("/proc/self/status")) return [unmeasured(TARGET, "there is no /proc")];
  if (!existsSync(commandLine())) return [unmeasured(TARGET, "there is no compiled code")];
  const { loaded, following, reading, instantMs } = await takenBy(
    await makeHistories(request),
    request,
  );
  const gpus = GPUS_PER_HOST * request.size("hosts");
  const note = `the most of the process that up starts, while ${String(RUNS - 1)} older runs are archived and read and ${String(INSTANTS)} instants shown; ${loaded.toFixed(0)} MB of it before any history; ${gpus.toLocaleString("en")} GPUs, ${request.size("waiting").toLocaleString("en")} waiting jobs`;
  const reported = { unit: "MB", target: REPORTED } as const;
  return [
    barOf({ ...TARGET, got: reading, note }),
    barOf({ id: "console-memory-following", ...reported, got: following }),
    barOf({ id: "console-memory-loaded", ...reported, got: loaded }),
    barOf({
      ...{ id: "console-memory-instant", unit: "ms", target: REPORTED },
      got: quantile(instantMs, 0.5),
      note: "processor time of that process for one instant, all its threads, median",
    }),
  ];
}

async function makeHistories(request: BenchRequest): Promise<Made> {
  const fleet = { gpus: GPUS_PER_HOST * request.size("hosts"), requests: request.size("waiting") };
  request.say(`memory: ${String(RUNS)} runs of a fleet of ${String(fleet.gpus)} GPUs`);
  const draw = drawFrom(request.seed);
  const [first] = largeLedgers(fleet, draw);
  if (first === undefined) throw new Error("a large fleet has no ledger");
  const codecs = createConverters().worker.payloadCodecs ?? [];
  const [cycles, interrupted] = [request.size("cycles"), request.interrupted];
  const histories = new Map<string, readonly HistoryEvent[]>();
  let newest = { runId: "", startedAtMs: first.nowMs };
  for await (const { runId, startedAtMs, events } of writtenRuns(first, {
    ...{ fleet: FLEET, runs: RUNS, cycles, codecs, draw, interrupted },
  })) {
    histories.set(runId, events);
    newest = { runId, startedAtMs };
  }
  const { runId, startedAtMs } = newest;
  const followed = firstHalf(histories.get(runId) ?? []);
  histories.set(runId, followed);
  const lastEvent = Number(followed.filter(isOfTask).at(-1)?.eventId);
  if (Number.isNaN(lastEvent)) throw new Error("no task of the newest run is followed");
  const span = startedAtMs - first.nowMs;
  return {
    histories,
    lastEvent,
    // From the newest to the oldest and back again.
    instants: Array.from({ length: INSTANTS }, (_, at) =>
      Math.floor(startedAtMs - span * Math.abs(Math.sin(at + 1)) - 1),
    ),
  };
}

/** Of whole tasks. */
function firstHalf(events: readonly HistoryEvent[]): readonly HistoryEvent[] {
  const end = events.findIndex(
    ({ workflowExecutionSignaledEventAttributes: signal }, at) =>
      at >= events.length / 2 && signal !== undefined,
  );
  return events.slice(0, end === -1 ? events.length : end);
}

const isOfTask = ({
  workflowTaskCompletedEventAttributes: completed,
  markerRecordedEventAttributes: marker,
}: HistoryEvent): boolean => completed !== undefined || marker !== undefined;

async function takenBy(
  { histories, lastEvent, instants }: Made,
  { interrupted }: BenchRequest,
): Promise<Taken> {
  const folder = await mkdtemp(join(tmpdir(), "orbweaver-bench-"));
  const server = await serveHistories(fleetWorkflowId(FLEET), histories);
  const port = await drawFreePort();
  const args = ["--port", String(port), "--fleet", FLEET, "--history", join(folder, "history.db")];
  const { worker, ready } = startWorker({
    role: "console",
    args: [...args, "--isolated", "--address", server.address],
    env: { ...process.env, ORBWEAVER_STATE_DIR: folder },
    logFile: join(folder, "console.log"),
  });
  const ask = askOf({ port, signal: interrupted });
  try {
    await ready;
    const loaded = peakMb(worker.pid);
    // A browser; its stream ends with the console.
    const browser = ask("/api/events").catch(() => undefined);
    server.open();
    for (let event = 0; event < lastEvent; await sleep(LOOK_MS))
      ({ event } = JSON.parse(await ask("/api/state")) as { readonly event: number });
    const following = peakMb(worker.pid);
    const instantMs: number[] = [];
    for (const ms of instants) {
      const before = busyMs(worker.pid);
      await ask(`/api/past?at=${String(ms)}`);
      instantMs.push(busyMs(worker.pid) - before);
    }
    const most = peakMb(worker.pid);
    process.kill(worker.pid, "SIGTERM");
    await browser;
    return { loaded, following, reading: most, instantMs };
  } finally {
    if (isAlive(worker)) process.kill(worker.pid, "SIGTERM");
    while (isAlive(worker)) await sleep(LOOK_MS);
    await server.close();
    await rm(folder, { recursive: true, force: true });
  }
}

/** A connection for each question: the console may be at work for so long that it has closed the former one. */
const askOf =
  ({ port, signal }: { readonly port: number; readonly signal: AbortSignal }) =>
  async (path: string): Promise<string> => {
    const request = get({ host: "127.0.0.1", port, path, agent: false, signal });
    const [response] = (await once(request, "response")) as [IncomingMessage];
    let text = "";
    response.setEncoding("utf8");
    for await (const part of response) text += String(part);
    if (response.statusCode !== 200)
      throw new Error(`${path}: ${String(response.statusCode)} ${text}`);
    return text;
  };

/** The most resident memory of a process until now. */
const peakMb = (pid: number): number =>
  Number(/^VmHWM:\s+(\d+) kB/m.exec(readFileSync(`/proc/${String(pid)}/status`, "utf8"))?.[1]) /
  1_024;

/** Of Linux, a hundred a second. */
const TICK_MS = 10;

function busyMs(pid: number): number {
  const text = readFileSync(`/proc/${String(pid)}/stat`, "utf8");
  // The command's name is in parentheses; user and system time are the twelfth and thirteenth words after it.
  const words = text.slice(text.lastIndexOf(")") + 2).split(" ");
  return (Number(words[11]) + Number(words[12])) * TICK_MS;
}
