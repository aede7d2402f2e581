/**
 * @file Sees a launch to its end that no `run` watches: an earlier agent started it, or the server has forgotten the attempt.
 *
 * What its ranks leave behind is killed, its report is written for whoever takes it over, and if still nobody has, the
 * fleet is told that nothing runs under the lease on this host.
 */

import type { AgentHost } from "./agent-host.ts";
import { FINAL_KINDS, untilPhase, type LocalRun } from "./local-run.ts";
import { settleRun } from "./run-end.ts";

export interface Unattended {
  /** The agent ends: the next one goes on. */
  readonly closing: AbortSignal;
  readonly onVacated: (host: AgentHost, run: LocalRun) => void;
}

export async function watchUnattended(
  host: AgentHost,
  run: LocalRun,
  { closing, onVacated }: Unattended,
): Promise<void> {
  const end = await untilPhase(run.files, FINAL_KINDS, closing);
  if (end === undefined) return;
  await settleRun(host, run, end);
  if (run.attempts === 0) onVacated(host, run);
}
