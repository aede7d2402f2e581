/** @file Log reading as the command does it: what the reader must know beside the text goes to standard error. */

import type { LogOptions } from "../client/index.ts";
import type { Kit } from "./kit.ts";
import { hostsText } from "./place.ts";
import { preemptionText } from "./preempted-runs.ts";

export function logOptions(kit: Kit, options: LogOptions): LogOptions {
  return {
    ...options,
    onAttempt: ({ attempt, gpus }) => {
      // The first run is what everybody expects; only a later one is news.
      if (attempt > 1)
        kit.say(`run ${String(attempt)} on ${hostsText(gpus.map(({ host }) => host))}`);
    },
    onAttemptEnd: (jobId, attempt) => {
      const preemption = preemptionText(jobId, attempt);
      if (preemption !== undefined) kit.say(`run ${String(attempt.attempt)} was ${preemption}`);
    },
    onDropped: (rank, bytes) => {
      kit.say(`rank ${String(rank)}: ${String(bytes)} bytes before this were dropped by rotation`);
    },
  };
}
