/** @file GPUs as operators name them: by their numbers on each of some hosts. */

import type { HostGpus } from "../domain/lease/lease.ts";
import { OrbweaverError } from "../domain/values/failure.ts";
import { isWord, parseHostId } from "../domain/values/ids.ts";
import { maskOf } from "../lib/bits.ts";

/** GPU sets of a host are bit masks. */
export const MOST_GPUS = 30;

export interface NamedGpus {
  /** As `<cluster>/<host>`. */
  readonly hosts: readonly string[];
  /** From 0 on, as `orbweaver fleet show` draws them; the same of each host. */
  readonly gpus: readonly number[];
}

/** Throws BAD_INPUT where no host has such a GPU, or such a name. */
export function partsOf({ hosts, gpus }: NamedGpus): readonly HostGpus[] {
  const wrong = gpus.find((gpu) => !Number.isInteger(gpu) || gpu < 0 || gpu >= MOST_GPUS);
  if (wrong !== undefined || gpus.length === 0)
    throw new OrbweaverError(
      "BAD_INPUT",
      `${wrong === undefined ? "no GPU was named" : `there is no GPU ${wrong}`}. Hosts have GPUs 0 to ${MOST_GPUS - 1} at most.`,
    );
  const nobody = hosts.find((host) => !isWord(host));
  if (nobody !== undefined)
    throw new OrbweaverError(
      "BAD_INPUT",
      `${JSON.stringify(nobody)} names no host. Hosts are named cluster/host, see \`orbweaver fleet show\`.`,
    );
  const mask = maskOf(gpus);
  return [...new Set(hosts)].map((host) => ({ host: parseHostId(host), mask }));
}
