/**
 * @file The state of every GPU, derived from hosts, leases and reservations. Pure.
 *
 * GPUs are numbered host by host in the order of the fleet file. Cost: O(GPUs + leases).
 */

import { counted } from "../text.ts";
import { UNTOLD, type HostRow, type LeaseRow, type ReservationRow, type UseRow } from "../wire.ts";

/** Whether this GPU of a host is out of service, whatever the host is and whoever still holds it. */
export const isGpuDrained = (
  { gpuDrains = [] }: Pick<HostRow, "gpuDrains">,
  gpu: number,
): boolean => gpuDrains.some(({ mask }) => ((mask >>> gpu) & 1) === 1);

/** In the order of the legend. */
export const GPU_STATES = [
  "free",
  "held",
  "granted",
  "evicted",
  "vacating",
  "reserved",
  "drained",
] as const;
export type GpuState = (typeof GPU_STATES)[number];

export interface GpuBook {
  readonly count: number;
  readonly hosts: readonly { readonly id: string; readonly row: HostRow; readonly first: number }[];
  /** Index into `GPU_STATES`. */
  readonly states: Uint8Array;
  /** Index into `leases`; -1 where there is none. */
  readonly leaseOf: Int32Array;
  readonly leases: readonly LeaseRow[];
  /** The job for which a free or vacating GPU is reserved or kept; -1, else an index into `claimants`. */
  readonly claimOf: Int32Array;
  readonly claimants: readonly string[];
  /** Those of them that have lost a host, for which the GPUs are kept. */
  readonly bereft: ReadonlySet<string>;
  /** Percent of the time in which it was used; `UNTOLD` where its agent does not say. */
  readonly use: Int16Array;
}

const STATE: Readonly<Record<LeaseRow["state"], number>> = {
  held: 1,
  granted: 2,
  evicted: 3,
  vacating: 4,
};
const RESERVED = 5;
const DRAINED = 6;

export function readGpus(
  hosts: ReadonlyMap<string, HostRow>,
  leases: ReadonlyMap<string, LeaseRow>,
  {
    reservations,
    use = new Map(),
  }: {
    readonly reservations: ReadonlyMap<string, ReservationRow>;
    readonly use?: ReadonlyMap<string, UseRow>;
  },
): GpuBook {
  const listed = [...hosts].sort(([, a], [, b]) => a.at - b.at);
  const firsts = new Map<string, number>();
  let count = 0;
  const placed = listed.map(([id, row]) => {
    const first = count;
    firsts.set(id, first);
    count += row.gpus;
    return { id, row, first };
  });
  const states = new Uint8Array(count);
  const leaseOf = new Int32Array(count).fill(-1);
  const claimOf = new Int32Array(count).fill(-1);
  const uses = new Int16Array(count).fill(UNTOLD);
  for (const [host, row] of use) {
    const first = firsts.get(host);
    const known = first === undefined ? 0 : (hosts.get(host)?.gpus ?? 0);
    for (let gpu = 0; gpu < known; gpu += 1) uses[(first ?? 0) + gpu] = row.use[gpu] ?? UNTOLD;
  }
  for (const { row, first } of placed)
    for (let gpu = 0; gpu < row.gpus; gpu += 1)
      if (isGpuDrained(row, gpu)) states[first + gpu] = DRAINED;
  const held = [...leases.values()];
  const claimants = [...reservations.keys()];
  const bereft = new Set(claimants.filter((job) => reservations.get(job)?.kind === "replace"));
  [...reservations.values()].forEach(({ gpus }, at) =>
    eachGpu(firsts, gpus, (gpu) => {
      states[gpu] = RESERVED;
      claimOf[gpu] = at;
    }),
  );
  held.forEach(({ gpus, state }, at) =>
    eachGpu(firsts, gpus, (gpu) => {
      states[gpu] = STATE[state];
      leaseOf[gpu] = at;
    }),
  );
  const claims = { claimOf, claimants, bereft };
  return { count, hosts: placed, states, leaseOf, leases: held, ...claims, use: uses };
}

function eachGpu(
  firsts: ReadonlyMap<string, number>,
  masks: readonly (readonly [string, number])[],
  see: (gpu: number) => void,
): void {
  for (const [host, mask] of masks) {
    const first = firsts.get(host);
    if (first === undefined) continue;
    for (let gpu = 0, rest = mask >>> 0; rest !== 0; gpu += 1, rest >>>= 1)
      if ((rest & 1) === 1) see(first + gpu);
  }
}

/** `16 GPUs on 2 hosts: 4 free, 12 held`. */
export function summaryText({ count, states, hosts }: GpuBook): string {
  const counts = GPU_STATES.map((name, state) => ({
    name,
    count: states.reduce((sum, one) => sum + (one === state ? 1 : 0), 0),
  }));
  const parts = counts
    .filter((one) => one.count > 0)
    .map((one) => `${one.count.toLocaleString("en")} ${one.name}`);
  return `${counted(count, "GPU")} on ${counted(hosts.length, "host")}: ${parts.join(", ")}`;
}
