/** @file A job's constraints with one of them left out or loosened, each with the words that say so. Cost: O(constraints). */

import type { Constraints } from "../../domain/job/job.ts";

export interface RelaxedConstraints {
  /** An order to the job's owner, without full stop. */
  readonly text: string;
  readonly without: Constraints;
}

export function relaxed(constraints: Constraints): readonly RelaxedConstraints[] {
  const {
    jurisdictions,
    clusters,
    hosts,
    gpuTypes,
    gpuMemoryGiB,
    antiAffinity,
    resources,
    ...rest
  } = constraints;
  const lists = {
    ...(clusters !== undefined && { clusters }),
    ...(hosts !== undefined && { hosts }),
    ...(jurisdictions !== undefined && { jurisdictions }),
    ...(gpuTypes !== undefined && { gpuTypes }),
    ...(gpuMemoryGiB !== undefined && { gpuMemoryGiB }),
    ...(antiAffinity !== undefined && { antiAffinity }),
    ...(resources !== undefined && { resources }),
  };
  const without = (key: keyof typeof lists): Constraints => ({
    ...rest,
    ...Object.fromEntries(Object.entries(lists).filter(([name]) => name !== key)),
  });
  const all: Constraints = { ...rest, ...lists };
  return [
    ...(rest.isSameHost
      ? [{ text: "leave out sameHost", without: { ...all, isSameHost: false } }]
      : []),
    ...(rest.isSameFabric
      ? [{ text: "leave out sameFabric", without: { ...all, isSameFabric: false } }]
      : []),
    ...(!rest.isSameHost && !rest.isSameFabric
      ? [
          {
            text: `allow more clusters than ${rest.maxClusters ?? 1} (maxClusters)`,
            without: { ...all, maxClusters: 1_000 },
          },
        ]
      : []),
    ...(antiAffinity === undefined
      ? []
      : [{ text: "leave out antiAffinity", without: without("antiAffinity") }]),
    ...(clusters === undefined
      ? []
      : [
          {
            text: `allow other clusters than ${clusters.join(", ")}`,
            without: without("clusters"),
          },
        ]),
    ...(hosts === undefined
      ? []
      : [{ text: `allow other hosts than ${hosts.join(", ")}`, without: without("hosts") }]),
    ...(gpuTypes === undefined
      ? []
      : [{ text: `allow other GPUs than ${gpuTypes.join(", ")}`, without: without("gpuTypes") }]),
    ...(gpuMemoryGiB === undefined
      ? []
      : [{ text: `allow less memory than ${gpuMemoryGiB} GiB`, without: without("gpuMemoryGiB") }]),
    ...(resources === undefined
      ? []
      : [
          {
            text: "take no more processors and memory than its GPUs' shares (resources)",
            without: without("resources"),
          },
        ]),
    ...(jurisdictions === undefined
      ? []
      : [
          {
            text: `allow other jurisdictions than ${jurisdictions.join(", ")}`,
            without: without("jurisdictions"),
          },
        ]),
  ];
}
