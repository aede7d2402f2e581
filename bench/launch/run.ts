/** @file Measures launches under each supervisor and bare spawns, in turns, each in a process of its own. */

import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { findNative, nativeFile } from "../../agent/system/native-supervisor.ts";
import { packageRoot } from "../../workers/server/package-root.ts";
import { atMost, barOf, REPORTED, unmeasured, type Bar } from "../bar.ts";
import type { BenchAnswer, BenchRequest } from "../bench.ts";
import { quantile } from "../statistics.ts";
import type { Measured } from "./launcher.ts";

const run = promisify(execFile);
const LONGEST_MS = 1_800_000;
const MOST_CPU_MS = 5;
const MOST_MIB = 3;

const CPU = { id: "launch-cpu", unit: "ms", target: atMost(MOST_CPU_MS) };
const MEMORY = { id: "launch-memory", unit: "MiB", target: atMost(MOST_MIB) };

type Mode = "bare" | "native" | "node";

export async function runLaunch(request: BenchRequest): Promise<BenchAnswer> {
  const rounds = request.size("rounds");
  const hasNative = findNative(nativeFile(packageRoot())) !== undefined;
  const modes: readonly Mode[] = ["bare", ...(hasNative ? (["native"] as const) : []), "node"];
  const got = new Map<Mode, Measured[]>();
  for (let round = 1; round <= rounds; round += 1)
    for (const mode of modes) {
      request.say(`${mode}, round ${String(round)} of ${String(rounds)}`);
      got.set(mode, [...(got.get(mode) ?? []), await measure(mode, request)]);
    }
  const median = (mode: Mode, of: (each: Measured) => number): number =>
    quantile((got.get(mode) ?? []).map(of), 0.5);
  const bareMs = median("bare", ({ cpuMs }) => cpuMs);
  const cpuMs = (mode: Mode): number => median(mode, (each) => each.cpuMs) - bareMs;
  const memory = (mode: Mode): number => median(mode, (each) => each.supervisorMiB);
  const where = `in a ${got.get("bare")?.[0]?.containment ?? ""}, less a bare spawn of ${bareMs.toFixed(2)} ms`;
  const native: readonly Bar[] = hasNative
    ? [
        barOf({ ...CPU, got: cpuMs("native"), note: where }),
        barOf({ ...MEMORY, got: memory("native"), note: "of a supervisor" }),
      ]
    : [CPU, MEMORY].map((figure) => unmeasured(figure, "there is no native supervisor here"));
  return {
    bars: [
      ...native,
      barOf({ ...CPU, id: "launch-cpu-node", target: REPORTED, got: cpuMs("node"), note: where }),
      barOf({ ...MEMORY, id: "launch-memory-node", target: REPORTED, got: memory("node") }),
    ],
  };
}

async function measure(mode: Mode, request: BenchRequest): Promise<Measured> {
  const dir = await mkdtemp(join(tmpdir(), "orbweaver-bench-launch-"));
  try {
    const { stdout } = await run(
      process.execPath,
      [
        join(packageRoot(), "dist/bench/launch/launcher.js"),
        mode,
        String(request.size("launches")),
        String(request.size("held")),
        dir,
      ],
      { timeout: LONGEST_MS },
    );
    // Written by our own launcher.
    return JSON.parse(stdout) as Measured;
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}
