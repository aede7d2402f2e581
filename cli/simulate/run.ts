/**
 * @file Runs simulations one after the other, reports progress, and stops at Ctrl-C.
 *
 * The simulator itself has no clock; the real time of progress reports is in no result.
 */

import { setImmediate as turn } from "node:timers/promises";
import { grouped, timeSpanText } from "../../simulator/report/amounts.ts";
import type { SimulationOptions, SimulationProgress } from "../../simulator/options.ts";
import type { SimulationResult } from "../../simulator/result.ts";
import { simulate } from "../../simulator/simulate.ts";
import type { CommandContext } from "../command/command-context.ts";

const SAY_EVERY_MS = 2_000;
const SAY_EVERY_ON_TERMINAL_MS = 200;
/** Back to the start of the line, and clear it. */
const REWRITE = "\r\u001b[2K";

/** `undefined` when it was interrupted. */
export async function runWithProgress(
  context: CommandContext,
  options: SimulationOptions,
): Promise<SimulationResult | undefined> {
  const { io } = context;
  const isTerminal = io.stderr.isTTY === true;
  const everyMs = isTerminal ? SAY_EVERY_ON_TERMINAL_MS : SAY_EVERY_MS;
  const beganAtMs = io.nowMs();
  let saidAtMs = beganAtMs;
  let hasLine = false;
  const run = simulate(options);
  for (;;) {
    const next = run.next();
    const nowMs = io.nowMs();
    if (next.done === true) {
      if (hasLine) io.stderr.write(REWRITE);
      if (nowMs > beganAtMs) context.say(endText(options, nowMs - beganAtMs));
      return next.value;
    }
    // Yields, so that signals are handled.
    await turn();
    if (io.interrupted.aborted) {
      context.say(`${hasLine ? "\n" : ""}· ${options.policy}: stopped; nothing is written`);
      return undefined;
    }
    if (nowMs - saidAtMs < everyMs) continue;
    saidAtMs = nowMs;
    const text = progressText(options.policy, next.value);
    if (isTerminal) io.stderr.write(`${REWRITE}${text}`);
    else context.say(text);
    hasLine = isTerminal;
  }
}

function progressText(policy: string, { ended, jobs, waiting, nowMs }: SimulationProgress): string {
  const share = Math.floor((100 * ended) / Math.max(1, jobs));
  return `· ${policy}: ${String(share)} % of ${grouped(jobs)} jobs, ${grouped(waiting)} wait, ${timeSpanText(nowMs)} simulated`;
}

function endText({ policy, workload }: SimulationOptions, tookMs: number): string {
  const jobs = workload.jobs.length;
  return `· ${policy}: ${grouped(jobs)} jobs in ${timeSpanText(tookMs)}, ${grouped(Math.round((jobs * 60_000) / tookMs))} a minute`;
}
