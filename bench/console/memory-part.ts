/**
 * @file What a console takes while it shows the past of a large fleet: runs are written as Temporal has them and put into an archive, and a process of its own
 * follows the newest one and shows instants of those before.
 */

import proto from "@temporalio/proto";
import { fork } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { createConverters } from "../../workers/codec/converters.ts";
import { packageRoot } from "../../workers/server/package-root.ts";
import { atMost, barOf, REPORTED, unmeasured, type Bar } from "../bar.ts";
import type { BenchRequest } from "../bench.ts";
import { largeLedgers } from "../live/large-ledger.ts";
import { drawFrom } from "../statistics.ts";
import type { ReadingFigures, ReadingOrder } from "./reading-process.ts";
import { writtenRuns } from "./written-histories.ts";

const GPUS_PER_HOST = 8;
const RUNS = 3;
const MOST_MB = 120;
const INSTANTS = 20;
const TARGET = { id: "console-memory", unit: "MB", target: atMost(MOST_MB) } as const;
const PROGRAM = "dist/bench/console/reading-process.js";

export async function measureMemory(request: BenchRequest): Promise<readonly Bar[]> {
  const program = join(packageRoot(), PROGRAM);
  if (!existsSync("/proc/self/status")) return [unmeasured(TARGET, "there is no /proc")];
  if (!existsSync(program)) return [unmeasured(TARGET, "there is no compiled code")];
  const folder = await mkdtemp(join(tmpdir(), "orbweaver-bench-"));
  try {
    const order = await archiveRuns(request, folder);
    const { loaded, following, reading, shown } = await readApart(program, order, request);
    if (shown < INSTANTS)
      throw new Error(`${String(shown)} of ${String(INSTANTS)} instants are shown`);
    const gpus = GPUS_PER_HOST * request.size("hosts");
    const note = `the most of the process while ${String(RUNS - 1)} older runs are read and ${String(INSTANTS)} instants shown; ${gpus.toLocaleString("en")} GPUs, ${request.size("waiting").toLocaleString("en")} waiting jobs`;
    const reported = { unit: "MB", target: REPORTED } as const;
    return [
      barOf({ ...TARGET, got: reading, note }),
      barOf({ id: "console-memory-following", ...reported, got: following }),
      barOf({ id: "console-memory-loaded", ...reported, got: loaded }),
    ];
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function archiveRuns(request: BenchRequest, folder: string): Promise<ReadingOrder> {
  const fleet = { gpus: GPUS_PER_HOST * request.size("hosts"), requests: request.size("waiting") };
  request.say(`memory: ${String(RUNS)} runs of a fleet of ${String(fleet.gpus)} GPUs`);
  const draw = drawFrom(request.seed);
  const [first] = largeLedgers(fleet, draw);
  if (first === undefined) throw new Error("a large fleet has no ledger");
  const codecs = createConverters().worker.payloadCodecs ?? [];
  const [cycles, interrupted] = [request.size("cycles"), request.interrupted];
  let runId = "";
  let startedAtMs = first.nowMs;
  for await (const run of writtenRuns(first, {
    ...{ fleet: "large", runs: RUNS, cycles, codecs, draw, interrupted },
  })) {
    const history = { events: [...run.events] };
    const packed = gzipSync(proto.temporal.api.history.v1.History.encode(history).finish());
    await writeFile(join(folder, `${run.runId}.history.gz`), packed);
    ({ runId, startedAtMs } = run);
  }
  const span = startedAtMs - first.nowMs;
  // Of the older runs alone, from the newest to the oldest and back again.
  const instants = Array.from({ length: INSTANTS }, (_, at) =>
    Math.floor(startedAtMs - span * Math.abs(Math.sin(at + 1)) - 1),
  );
  return { folder, runId, instants };
}

async function readApart(
  program: string,
  order: ReadingOrder,
  { interrupted }: BenchRequest,
): Promise<ReadingFigures> {
  const child = fork(program, [JSON.stringify(order)], {
    execArgv: [],
    signal: interrupted,
    stdio: ["ignore", "ignore", "inherit", "ipc"],
  });
  const ended = once(child, "exit").then(([code]) => {
    throw new Error(`the console's process ended with exit code ${String(code)}`);
  });
  const [figures] = (await Promise.race([once(child, "message"), ended])) as [ReadingFigures];
  ended.catch(() => undefined);
  return figures;
}
