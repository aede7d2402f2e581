/**
 * @file Ends the launches on broken GPUs, so that their jobs go on elsewhere: with a checkpoint where they write one, as a failure of the host.
 * That of a gang over several hosts its job orders from all of them.
 *
 * Called once the host, or the GPU, is drained, or the job would come back. A launch whose GPUs are sound runs on.
 */

import { maskOf } from "../../lib/bits.ts";
import { hostGpusOn } from "../containment/host-gpus.ts";
import type { AgentHost } from "../runs/agent-host.ts";
import type { StoredOrder } from "../folder/launch-files.ts";
import { unfinishedRuns } from "../presence/presence-report.ts";
import { placesOf } from "../runs/own-gpus.ts";
import { stopRun } from "../runs/run-end.ts";
import { tellFault } from "../runs/told-fault.ts";

export interface Move {
  /** By their places. */
  readonly gpus: readonly number[] | "all";
  /** For people: that of the drain. */
  readonly reason: string;
  readonly onNote: (note: string) => void;
}

/** A GPU of it is nowhere, and another one has its place. */
const isReplaced = ({ gpus = [] }: AgentHost, { gpuUuids = [] }: StoredOrder): boolean =>
  gpus.length > 0 && gpuUuids.some((uuid) => !gpus.some((each) => each.uuid === uuid));

/** Returns when none of them runs any more. */
export async function moveLaunches(
  hosts: Iterable<AgentHost>,
  { gpus, reason, onNote }: Move,
): Promise<void> {
  const moves = [...hosts].flatMap((host) => {
    const what = gpus === "all" ? host.id : `a GPU of ${host.id}`;
    const broken = gpus === "all" ? -1 : maskOf(hostGpusOn(host.gpus, gpus));
    return unfinishedRuns(host).flatMap((run) => {
      const { stored } = run;
      if (stored === undefined) return [];
      if (
        gpus !== "all" &&
        (maskOf(placesOf(host, stored)) & broken) === 0 &&
        !isReplaced(host, stored)
      )
        return [];
      const { order } = stored;
      onNote(`${host.id}: ${order.jobId} leaves it: ${reason}`);
      const ask = {
        reason: `${what} is out of service (${reason}); ${order.jobName} goes on elsewhere`,
        isCheckpointFirst: order.run.checkpoint !== undefined,
        isHostFault: true as const,
      };
      const stopped = tellFault(run, ask.reason).then(() => stopRun(host, run, ask));
      return [
        stopped.catch((error: unknown) => {
          onNote(`${host.id}: ${order.jobId} could not be stopped: ${String(error)}`);
        }),
      ];
    });
  });
  await Promise.all(moves);
}
