/** @file Removes the output of old launches when an agent starts, and every hour. */

import type { AgentHost } from "../agent/runs/agent-host.ts";
import { DEFAULT_RETENTION, removeOldLaunches } from "../agent/runs/retention.ts";

const SWEEP_MS = 3_600_000;

export function removeOldOutput(
  host: AgentHost,
  closing: AbortSignal,
  onNote: (note: string) => void,
): void {
  const sweep = (): void => {
    try {
      removeOldLaunches(host, DEFAULT_RETENTION, Date.now());
    } catch (error) {
      onNote(`old output of ${host.id}: ${error instanceof Error ? error.message : String(error)}`);
    }
  };
  sweep();
  const timer = setInterval(sweep, SWEEP_MS);
  timer.unref();
  closing.addEventListener("abort", () => clearInterval(timer), { once: true });
}
