/**
 * @file The GPUs of a host by their places, as `gpus.json` of its folder notes them: from the first start that finds as many as the fleet's description says.
 *
 * A description with another type or number of GPUs begins it anew, by the machine's order. Without the file, as where somebody has removed it, so does the agent's next start.
 */

import { placedGpus, type NotedGpu } from "../containment/placed-gpus.ts";
import type { HostGpu } from "../containment/host-gpus.ts";
import type { Files } from "../ports/files.ts";
import { readJson, replaceJson } from "./json-files.ts";

export interface DescribedGpus {
  readonly gpuCount: number;
  readonly gpuType: string;
}

interface Stored extends DescribedGpus {
  readonly gpus: readonly NotedGpu[];
}

/** The GPUs that the machine shows, by their places; writes what is new. A note that cannot be written keeps no agent from its start. */
export function placeGpus(
  files: Files,
  path: string,
  {
    described,
    shown,
    known,
    onNote,
  }: {
    readonly described: DescribedGpus;
    readonly shown: readonly HostGpu[];
    /** By their places before, which hold for this agent where nothing is noted. */
    readonly known: readonly HostGpu[];
    readonly onNote: (note: string) => void;
  },
): readonly HostGpu[] {
  const noted = notedIn(readJson<Partial<Stored>>(files, path), described);
  const placed = placedGpus(noted.length > 0 ? noted : known, shown);
  const gpus = placed.map(({ uuid, busId, gpu }) => ({
    uuid,
    ...(busId !== undefined && { busId }),
    ...(gpu !== undefined && { gpu }),
  }));
  const isWhole = noted.length > 0 || shown.length >= described.gpuCount;
  const isNew = gpus.some(({ uuid }, place) => noted[place]?.uuid !== uuid);
  if (!isWhole || !isNew) return placed;
  try {
    const { gpuCount, gpuType } = described;
    replaceJson(files, path, { gpuCount, gpuType, gpus } satisfies Stored);
  } catch (error) {
    onNote(`which GPU has which place could not be noted in ${path}: ${String(error)}`);
  }
  return placed;
}

function notedIn(
  stored: Partial<Stored> | undefined,
  { gpuCount, gpuType }: DescribedGpus,
): readonly NotedGpu[] {
  const isOfThis = stored?.gpuCount === gpuCount && stored.gpuType === gpuType;
  return isOfThis && Array.isArray(stored.gpus) ? stored.gpus : [];
}
