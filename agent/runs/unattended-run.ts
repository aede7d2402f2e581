/**
 * @file Watches a launch that no `run` activity watches: an earlier agent started it, or the server has forgotten the attempt.
 *
 * A new attempt usually takes such a launch over within a minute. Until then it runs on. When its job is closed, or has written this
 * lease off, no attempt will follow, and the launch is stopped. At its end the processes that its ranks left behind are killed and its report
 * is written for a later attempt. Without one, the fleet is told that nothing runs under the lease on this host.
 * Cost: one question to the server every ten seconds for each such launch.
 */

import type { AgentHost } from "./agent-host.ts";
import type { RunOrder } from "../../protocol/agent-contract.ts";
import { FINAL_KINDS, untilPhase, type LocalRun } from "./local-run.ts";
import { settleRun, stopRun } from "./run-end.ts";

export interface Unattended {
  /** The agent ends: the next one goes on. */
  readonly closing: AbortSignal;
  /** Whether the job has ended or has written the order's lease off; fails when the server does not answer. */
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
  const ending = untilPhase(run, FINAL_KINDS, closing);
  void stopWhenOver(host, run, { isOver, signal: AbortSignal.any([closing, asking.signal]) });
  const end = await ending;
  asking.abort();
  if (end === undefined) return;
  await settleRun(host, run, end);
  // An attempt that saw the end first may have left with the report by now.
  if (run.attempts === 0 && !run.isReported) onVacated(host, run);
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
    await host.system.clock.pause(ASK_MS, signal);
  }
}
