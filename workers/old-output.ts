/** @file Removes the output of old launches when an agent starts, and every hour. */

import type { AgentHost } from "../agent/runs/agent-host.ts";
import { removeOldLaunches } from "../agent/runs/retention.ts";
import { AGENTS_KEEP } from "../domain/fleet/keep.ts";

const SWEEP_MS = 3_600_000;

export function removeOldOutput(
  host: AgentHost,
  closing: AbortSignal,
  onNote: (note: string) => void,
): void {
  const sweep = (): void => {
    try {
      removeOldLaunches(host, AGENTS_KEEP, Date.now());
    } catch (error) {
      onNote(`old output of ${host.id}: ${error instanceof Error ? error.message : String(error)}`);
    }
  };
  sweep();
  const timer = setInterval(sweep, SWEEP_MS);
  timer.unref();
  closing.addEventListener("abort", () => clearInterval(timer), { once: true });
}
