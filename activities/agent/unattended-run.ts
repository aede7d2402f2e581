/**
 * @file Sees a launch to its end that no `run` watches: an earlier agent started it, or the server has forgotten the attempt.
 *
 * Such a launch is usually taken over within a minute. Until then it runs on; but when its job is closed, or has written this
 * lease off, nobody will ever ask again, and it is stopped. What its ranks leave behind is killed, its report is written for whoever takes it
 * over, and if still nobody has, the fleet is told that nothing runs under the lease on this host.
 * Cost: one question to the server every ten seconds for each such launch.
 */

import { abortablePause } from "./abortable-pause.ts";
import type { AgentHost } from "./agent-host.ts";
import type { RunOrder } from "../agent-contract.ts";
import { FINAL_KINDS, untilPhase, type LocalRun } from "./local-run.ts";
import { settleRun, stopRun } from "./run-end.ts";

export interface Unattended {
  /** The agent ends: the next one goes on. */
  readonly closing: AbortSignal;
  /** Whether the job has ended or has written the order's lease off; fails when nobody answers. */
  readonly isOver: (order: RunOrder) => Promise<boolean>;
  readonly onVacated: (host: AgentHost, run: LocalRun) => void;
}

const ASK_MS = 10_000;

export async function watchUnattended(
  host: AgentHost,
  run: LocalRun,
  { closing, isOver, onVacated }: Unattended,
): Promise<void> {
  const asking = new AbortController();
  const ending = untilPhase(run.files, FINAL_KINDS, closing);
  void stopWhenOver(host, run, { isOver, signal: AbortSignal.any([closing, asking.signal]) });
  const end = await ending;
  asking.abort();
  if (end === undefined) return;
  await settleRun(host, run, end);
  if (run.attempts === 0) onVacated(host, run);
}

async function stopWhenOver(
  host: AgentHost,
  run: LocalRun,
  { isOver, signal }: Pick<Unattended, "isOver"> & { readonly signal: AbortSignal },
): Promise<void> {
  while (!signal.aborted) {
    const order = run.stored?.order;
    // An attempt that watches hears of the end itself; no answer is no proof.
    if (order !== undefined && run.attempts === 0 && (await isOver(order).catch(() => false))) {
      await stopRun(host, run, { reason: "its job is over", isCheckpointFirst: false }).catch(
        () => undefined,
      );
    }
    await abortablePause(ASK_MS, signal);
  }
}
