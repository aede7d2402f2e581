/**
 * @file How soon the command line answers, beside an empty Node process, in turns: its version, and a list of jobs that wait.
 *
 * Whole processes by the wall clock, and by their processor time, which a busy machine disturbs less. The list is checked for its length before.
 */

import { execFile } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { commandLine } from "../../workers/server/package-root.ts";
import { atMost, barOf, REPORTED, type Bar } from "../bar.ts";
import type { BenchRequest } from "../bench.ts";
import { quantile } from "../statistics.ts";
import { childrenCpuMs } from "./cpu.ts";
import type { BenchWorld } from "./world.ts";

const run = promisify(execFile);
const MAIN = commandLine();
const LANES = 16;
const VERSION_RATIO = 1.5;
const LIST_RATIO = 4;
const MOST_OUTPUT_BYTES = 64 * 2 ** 20;
/** More than the fleet has, so that the jobs wait. */
const TOO_MANY_GPUS = 1_024;
const LOOK_EVERY_MS = 500;
const LISTED_WITHIN_MS = 120_000;

/** Of one command over all rounds; the kernel counts processor time too coarsely for one. */
interface Took {
  readonly wallMs: number[];
  cpuMs: number;
}

export async function measureCommand(
  world: BenchWorld,
  request: BenchRequest,
): Promise<readonly Bar[]> {
  const count = request.size("listed-jobs");
  const rounds = request.size("command-rounds");
  request.say(`command: submitting ${String(count)} jobs that wait`);
  await submitWaiting(world, count);
  const place = ["--isolated", "--address", world.address, "--fleet", world.fleet];
  const list = [MAIN, "list", "--limit", String(count), "--json", ...place];
  await untilListed(list, count);
  const bare: Took = { wallMs: [], cpuMs: 0 };
  const version: Took = { wallMs: [], cpuMs: 0 };
  const listed: Took = { wallMs: [], cpuMs: 0 };
  for (let round = 0; round < rounds; round += 1) {
    world.check();
    await time(bare, ["-e", "0"]);
    await time(version, [MAIN, "--version"]);
    await time(listed, list);
  }
  return [
    barOf({ id: "node-p50", unit: "ms", target: REPORTED, got: quantile(bare.wallMs, 0.5) }),
    ...ratios({ id: "version", most: VERSION_RATIO }, version, bare),
    ...ratios({ id: "list", most: LIST_RATIO }, listed, bare),
  ];
}

function ratios(
  { id, most }: { readonly id: string; readonly most: number },
  of: Took,
  bare: Took,
): readonly Bar[] {
  return [
    barOf({
      id: `${id}-ratio`,
      unit: "×",
      target: atMost(most),
      got: quantile(of.wallMs, 0.5) / quantile(bare.wallMs, 0.5),
      note: `medians of ${String(of.wallMs.length)} processes beside as many of \`node -e 0\`, in turns`,
    }),
    barOf({
      id: `${id}-cpu-ratio`,
      unit: "×",
      target: REPORTED,
      got: of.cpuMs / bare.cpuMs,
    }),
  ];
}

async function time(took: Took, words: readonly string[]): Promise<void> {
  const cpuBeforeMs = childrenCpuMs();
  const startedMs = performance.now();
  await run(process.execPath, [...words], { maxBuffer: MOST_OUTPUT_BYTES });
  took.wallMs.push(performance.now() - startedMs);
  took.cpuMs += childrenCpuMs() - cpuBeforeMs;
}

async function submitWaiting(world: BenchWorld, count: number): Promise<void> {
  const file = { name: "listed", gang: { gpus: TOO_MANY_GPUS }, run: { command: ["true"] } };
  let next = 0;
  const lane = async (): Promise<void> => {
    for (let at = next++; at < count; at = next++) {
      world.check();
      await world.orbweaver.submit(file, {
        ...{ idempotencyKey: `${world.fleet}-listed-${String(at)}`, isQueuedAnyway: true },
      });
    }
  };
  await Promise.all(Array.from({ length: LANES }, lane));
}

/** The search index follows a little later. */
async function untilListed(list: readonly string[], count: number): Promise<void> {
  const untilMs = Date.now() + LISTED_WITHIN_MS;
  for (;;) {
    const { stdout } = await run(process.execPath, [...list], { maxBuffer: MOST_OUTPUT_BYTES });
    const { jobs } = JSON.parse(stdout) as { readonly jobs: readonly unknown[] }; // of our own verb
    if (jobs.length === count) return;
    if (Date.now() > untilMs)
      throw new Error(`${String(jobs.length)} of ${String(count)} jobs are listed`);
    await sleep(LOOK_EVERY_MS);
  }
}
