/**
 * @file Which GPU of the machine has which place of its host: by the ids that the host has noted, not by the driver's order, so that one that is gone moves no other.
 *
 * A GPU that is noted keeps its place, and one that is not shown holds it (`isGone`). One that is not noted takes the place of a gone one: the same bus address
 * first, then in the machine's order; else it comes behind all others, where no lease is. Without a note the machine's order counts. Pure.
 */

import type { HostGpu } from "./host-gpus.ts";

/** What is kept of a GPU, by its place. */
export type NotedGpu = Pick<HostGpu, "uuid" | "busId" | "gpu">;

/** `GPU` or `MIG`: where a GPU is divided while the agent runs, its instances are no GPU of the lease. */
const kindOf = (uuid: string): string => uuid.slice(0, 4);

export function placedGpus(
  noted: readonly NotedGpu[],
  shown: readonly HostGpu[],
): readonly HostGpu[] {
  const taken: (HostGpu | undefined)[] = noted.map(({ uuid }) =>
    shown.find((each) => each.uuid === uuid),
  );
  const fresh = shown.filter(({ uuid }) => !noted.some((each) => each.uuid === uuid));
  const give = (isFor: (noted: NotedGpu, gpu: HostGpu) => boolean): void => {
    for (const gpu of [...fresh]) {
      const place = noted.findIndex(
        (each, at) =>
          taken[at] === undefined && kindOf(each.uuid) === kindOf(gpu.uuid) && isFor(each, gpu),
      );
      if (place < 0) continue;
      taken[place] = gpu;
      fresh.splice(fresh.indexOf(gpu), 1);
    }
  };
  give((former, { busId }) => busId !== undefined && former.busId === busId);
  give(() => true);
  // Behind those of all shown GPUs, so that a gone instance of MIG is out alone, and so is a whole GPU among instances.
  const areNumbered = shown.some(({ gpu }) => gpu !== undefined);
  const unshown = Math.max(-1, ...shown.map(({ gpu = -1 }) => gpu)) + 1;
  const kept = taken.flatMap((gpu, index): readonly HostGpu[] => {
    const former = noted[index];
    if (gpu !== undefined) return [{ ...gpu, index }];
    if (former === undefined) return [];
    return [
      {
        ...{ index, uuid: former.uuid, nodes: [], devices: [], isGone: true },
        ...(former.busId !== undefined && { busId: former.busId }),
        ...((former.gpu !== undefined || areNumbered) && { gpu: unshown + index }),
      },
    ];
  });
  return [...kept, ...fresh.map((gpu, at) => ({ ...gpu, index: kept.length + at }))];
}
