/**
 * @file A job at this terminal until it has ended: its output, and signals that end it.
 *
 * A signal that would end this command ends the job, as with `srun`: the first Ctrl-C while it waits, the second within two seconds while it runs, TERM
 * always. Once it is being cancelled, one more Ctrl-C leaves it alone. HUP leaves it: a lost line takes no work with it.
 */

import type { JobHandle } from "../../client/index.ts";
import type { CommandContext } from "../command/command-context.ts";
import { EXIT } from "../terminal/exit-code.ts";
import { endAsJob, followJob } from "../command/job-follower.ts";
import { takeSignals } from "./standard-streams.ts";

const TWICE_WITHIN_MS = 2_000;

/** `isRaw`: control characters in its output pass a terminal. */
export async function attendJob(
  context: CommandContext,
  job: JobHandle,
  { isRaw }: { readonly isRaw: boolean },
): Promise<void> {
  const { jobId } = job;
  const left = new AbortController();
  let [isRunning, isCancelled] = [false, false];
  let exitCode: number = EXIT.interrupted;
  let lastMs = -Infinity;
  const cancel = (): void => {
    if (isCancelled) return;
    isCancelled = true;
    context.say(`cancelling ${jobId}; Ctrl-C leaves it`);
    job.cancel().catch((error: unknown) => {
      const why = error instanceof Error ? error.message : String(error);
      context.say(`${jobId} cannot be cancelled: ${why}`);
      left.abort();
    });
  };
  const leave = (code: number): void => {
    exitCode = code;
    left.abort();
  };
  const interrupt = (): void => {
    const nowMs = performance.now();
    if (isCancelled) return leave(EXIT.interrupted);
    if (!isRunning || nowMs - lastMs <= TWICE_WITHIN_MS) return cancel();
    lastMs = nowMs;
    context.say(`${jobId} runs; Ctrl-C again within two seconds cancels it`);
  };
  context.endsByItself();
  const giveBack = takeSignals((signal) => {
    if (signal === "INT") interrupt();
    else if (signal === "HUP") leave(EXIT.hungUp);
    else if (signal === "TERM" || signal === "QUIT") cancel();
  });
  // While it was being submitted.
  if (context.io.interrupted.aborted) interrupt();
  try {
    const outcome = await followJob(context, job, {
      output: { isRaw },
      stop: left.signal,
      onRun: () => {
        isRunning = true;
      },
      onState: (state) => {
        isRunning = state === "running" || state === "stopping";
      },
    });
    if (outcome !== undefined) return endAsJob(context, jobId, outcome);
    context.say(`${jobId} continues; \`orbweaver cancel ${jobId}\` stops it`);
    context.exitWith(exitCode);
  } finally {
    giveBack();
  }
}
