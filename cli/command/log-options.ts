/** @file Options of log reading for verbs; notes about the log go to standard error. */

import type { LogOptions } from "../../client/index.ts";
import type { CommandContext } from "./command-context.ts";
import type { Io } from "../terminal/io.ts";
import { safeOutput } from "../terminal/safe-text.ts";
import { hostsText } from "../text/place.ts";
import { preemptionText } from "../text/preempted-runs.ts";

/** Writes a log to standard output. On a terminal its control characters are shown, not obeyed, unless the reader wants them raw. */
export function logWriter(
  { stdout }: Io,
  { isRaw = false }: { readonly isRaw?: boolean } = {},
): (text: string) => void {
  const safe = stdout.isTTY === true && !isRaw ? safeOutput() : undefined;
  return (text) => void stdout.write(safe?.(text) ?? text);
}

export function logOptions(context: CommandContext, options: LogOptions): LogOptions {
  return {
    ...options,
    onAttempt: ({ attempt, gpus }) => {
      // The first run is the expected one; only later runs are announced.
      if (attempt > 1)
        context.say(`run ${String(attempt)} on ${hostsText(gpus.map(({ host }) => host))}`);
    },
    onAttemptEnd: (jobId, attempt) => {
      const preemption = preemptionText(jobId, attempt);
      if (preemption !== undefined) context.say(`run ${String(attempt.attempt)} was ${preemption}`);
    },
    onLost: (rank) => {
      context.say(`rank ${String(rank)}: its host does not answer; the log goes on when it does`);
    },
    onDropped: (rank, bytes) => {
      context.say(
        `rank ${String(rank)}: ${String(bytes)} bytes before this point were dropped by log rotation`,
      );
    },
  };
}
