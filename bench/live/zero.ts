/** @file Scale to zero as bars: how soon a fleet without any control process grants, and how still it becomes. */

import { measureScaleToZero, SCALE_TO_ZERO_SIZES } from "../scale-to-zero.ts";
import { atMost, barOf, exactly, REPORTED, type Bar } from "../bar.ts";
import type { BenchRequest } from "../bench.ts";
import { spreadOf, type Spread } from "../statistics.ts";

interface ZeroAnswer {
  readonly bars: readonly Bar[];
  readonly details: Readonly<Record<string, Spread>>;
}

export async function measureZero(request: BenchRequest): Promise<ZeroAnswer> {
  const { say, interrupted, env } = request;
  const figures = await measureScaleToZero({
    ...SCALE_TO_ZERO_SIZES,
    rounds: request.size("cold-rounds"),
    hosts: request.size("long-hosts"),
    watchSeconds: request.size("watch-seconds"),
    env,
    say,
    interrupted,
  });
  const { grantedMs, withoutConsoleMs, workerStartMs, processesAfterQuiet, wakeUps } = figures;
  const granted = spreadOf(grantedMs);
  const without = spreadOf(withoutConsoleMs);
  return {
    bars: [
      barOf({
        id: "wake-p50",
        unit: "ms",
        target: atMost(2_000),
        got: granted.p50,
        note: `submit to granted with no control process running, beside a console, ${String(granted.count)} times`,
      }),
      barOf({ id: "wake-p99", unit: "ms", target: atMost(5_000), got: granted.p99 }),
      barOf({
        id: "wake-without-console-p50",
        unit: "ms",
        target: REPORTED,
        got: without.p50,
        note: `as often in turns, on a fleet without a console; p99 ${String(without.p99)}`,
      }),
      barOf({
        id: "quiet-processes",
        unit: "",
        target: exactly(0),
        got: processesAfterQuiet,
        note: `control processes after ${String(SCALE_TO_ZERO_SIZES.quietSeconds)} s of quiet`,
      }),
      barOf({
        id: "wake-ups",
        unit: "1/h",
        target: REPORTED,
        got: wakeUps.watchedMs > 0 ? wakeUps.startsPerHour : undefined,
        note: `starts of control processes with ${String(SCALE_TO_ZERO_SIZES.jobs)} long jobs on ${String(request.size("long-hosts"))} hosts: ${String(wakeUps.starts)} in ${String(Math.round(wakeUps.watchedMs / 1_000))} s`,
      }),
    ],
    details: {
      grantedMs: granted,
      withoutConsoleMs: without,
      workerStartMs: spreadOf(workerStartMs),
    },
  };
}
