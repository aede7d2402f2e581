/**
 * @file Which processes a launch has left on its GPUs, by the driver's word: what a container's daemon started for it is in no group of the launch, and may carry
 * no mark.
 *
 * A process counts that began after the launch's supervisor: elder ones are somebody else's. One that dies leaves its GPU a moment after it has left its
 * group, so the driver is asked again for `PATIENCE_MS`. Nothing is killed, because nobody knows whose it is. A process whose number means nothing here, as where
 * the agent is in a PID namespace of its own, does not count. Nor does the server of CUDA's Multi-Process Service, which begins with the first job on a host
 * whose operator runs that service, and stays.
 */

import type { GpuProcess } from "../../domain/fleet/parse-gpu-processes.ts";
import { uuidsOf, type HostGpu } from "../containment/host-gpus.ts";
import type { Clock } from "../ports/clock.ts";
import type { ProcessIdentity, Processes } from "../ports/processes.ts";

export interface LeftOnGpusPorts {
  readonly clock: Pick<Clock, "elapsedMs" | "pause">;
  readonly processes: Pick<Processes, "bootId" | "stat">;
  readonly hostGpus: readonly HostGpu[];
  /** All that compute now; empty where no driver answers. */
  computing(): Promise<readonly GpuProcess[]>;
}

export interface EndedLaunch {
  /** Places of its GPUs on this host. */
  readonly gpus: readonly number[];
  /** Its supervisor. */
  readonly supervisor: ProcessIdentity;
  /** Ends the wait. */
  readonly signal: AbortSignal;
}

/** How long GPUs may take to be free of processes that have ended. */
export const PATIENCE_MS = 30_000;
/** `nvidia-cuda-mps-server`, as the kernel cuts it. */
const MPS_SERVER = "nvidia-cuda-mps";
const FIRST_PAUSE_MS = 100;
const MOST_PAUSE_MS = 2_000;

/** Empty as soon as no process of the launch computes on its GPUs; else those that still do when the patience, or the signal, ends. */
export async function leftOnGpus(
  { gpus, supervisor, signal }: EndedLaunch,
  { clock, processes, hostGpus, computing }: LeftOnGpusPorts,
): Promise<readonly GpuProcess[]> {
  // No process outlives its machine's start.
  if (supervisor.bootId !== processes.bootId()) return [];
  const own = new Set(uuidsOf(gpus, hostGpus));
  const isLeft = ({ uuid, pid }: GpuProcess): boolean => {
    const stat = own.has(uuid) ? processes.stat(pid) : undefined;
    if (stat === undefined || stat.isZombie || stat.name === MPS_SERVER) return false;
    return isYounger(stat, supervisor);
  };
  const beganMs = clock.elapsedMs();
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 2, MOST_PAUSE_MS)) {
    const left = (await computing()).filter(isLeft);
    const isOver = signal.aborted || clock.elapsedMs() - beganMs >= PATIENCE_MS;
    if (left.length === 0 || isOver) return left;
    await clock.pause(pauseMs, signal);
  }
}

/**
 * One question at a time, and an answer within the patience: a program that asks a broken driver may hang where no signal ends it, and launches end all the same. While
 * it hangs it is asked for by nobody else.
 */
export function withinPatience<Answer>(
  ask: () => Promise<Answer>,
  clock: Pick<Clock, "pause">,
): () => Promise<Answer> {
  let open: Promise<Answer> | undefined;
  return async () => {
    open ??= ask().finally(() => {
      open = undefined;
    });
    const over = new AbortController();
    const late = clock.pause(PATIENCE_MS, over.signal).then(() => undefined);
    const answer = await Promise.race([open.then((value) => ({ value })), late]).finally(() =>
      over.abort(),
    );
    if (answer === undefined) throw new Error(`no answer within ${PATIENCE_MS / 1_000} s`);
    return answer.value;
  };
}

/** By ticks since the machine's start, as Linux counts them. */
const isYounger = (
  { started }: { readonly started: string },
  supervisor: ProcessIdentity,
): boolean => Number(started) >= Number(supervisor.started);
