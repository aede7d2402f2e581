/**
 * @file Whether a hardware fault of a GPU lies under the end of a launch: processes often fail of it before anybody has told them to end, and then the host
 * is to blame, not the job.
 *
 * Only what the driver has written of the launch's own GPUs counts, from shortly before its start on: a grant may be on its way while a GPU breaks.
 */

import type { HostGpu } from "../containment/host-gpus.ts";
import type { Clock } from "../ports/clock.ts";
import type { GpuFault } from "./gpu-check.ts";

export interface LaunchFault {
  /** For people: which GPU, and what happened. */
  readonly text: string;
  /** By the wall clock. */
  readonly atMs: number;
}

/** Finds the first such fault; the GPUs are out of service when it answers, or the job could come back. Never fails. */
export type FindLaunchFault = (
  gpus: readonly number[],
  startedAtMs: number,
) => Promise<LaunchFault | undefined>;

/** Before the start, so that a launch counts that was granted its GPUs before they were drained. */
export const FAULT_BEFORE_MS = 60_000;
/** After the end: a log without times is as of its reading. */
export const FAULT_AFTER_MS = 10_000;

export function launchFault(
  { hostGpus, own }: { readonly hostGpus: readonly HostGpu[]; readonly own: readonly number[] },
  startedAtMs: number,
  {
    clock,
    faultsSince,
  }: {
    readonly clock: Pick<Clock, "nowMs" | "sinceBootMs">;
    readonly faultsSince: (sinceBootMs: number) => readonly GpuFault[];
  },
): LaunchFault | undefined {
  const busIds = new Set(
    hostGpus.flatMap(({ index, busId = [] }) => (own.includes(index) ? busId : [])),
  );
  if (busIds.size === 0) return undefined;
  const bootedAtMs = clock.nowMs() - clock.sinceBootMs();
  const fault = faultsSince(startedAtMs - FAULT_BEFORE_MS - bootedAtMs).find(({ busId }) =>
    busIds.has(busId),
  );
  return fault && { text: fault.text, atMs: Math.round(bootedAtMs + fault.sinceBootMs) };
}
