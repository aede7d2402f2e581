/**
 * @file Measured collective bandwidth of GPU sets, in GB/s of bus bandwidth as nccl-tests prints it.
 *
 * A set is a bit mask per host (bit i = GPU i). Inside one host there is a slot for each of the 2^n masks;
 * sets over several hosts are a list of rows, because few of them are ever measured. An unmeasured set is absent, never 0,
 * because a single GPU does not communicate and a missing measurement is not a slow link.
 */

export interface IntraHostTable {
  /** 1 to `MAX_TABLE_GPUS`. */
  readonly gpuCount: number;
  /** Index = GPU mask, 2^gpuCount entries; `null` where not measured. */
  readonly gbsByMask: readonly (number | null)[];
}

export interface BandwidthTable {
  /** Names of the hosts in the order of the masks. */
  readonly hosts: readonly string[];
  /** By host; `null` where the sets inside that host were not measured. */
  readonly intraHost: readonly (IntraHostTable | null)[];
  /** Each set once. */
  readonly sets: readonly MeasuredSet[];
  /** The collective and message that were measured; absent = unknown. */
  readonly op?: string;
  readonly messageBytes?: number;
}

export interface MeasuredSet {
  /** One mask per host of the table. */
  readonly masks: readonly number[];
  /** Every measurement of the set, in file order; at least one. */
  readonly gbs: readonly number[];
}

/** A table has 2^n slots: 16 GPUs are 65,536 of them. */
export const MAX_TABLE_GPUS = 16;

/** Mean of the measurements of one set. */
export function meanGbs(set: MeasuredSet): number {
  return set.gbs.reduce((sum, gbs) => sum + gbs, 0) / set.gbs.length;
}

/** Bandwidth of a set inside one host; `undefined` where it was not measured. */
export function intraHostGbs(table: IntraHostTable, mask: number): number | undefined {
  return table.gbsByMask[mask] ?? undefined;
}

/**
 * A look-up over the whole table, by one mask per host. A set inside one host is answered from that
 * host's own table if there is one; every other set from the mean of its measurements.
 */
export function bandwidthLookup(
  table: BandwidthTable,
): (masks: readonly number[]) => number | undefined {
  const meanByKey = new Map(table.sets.map((set) => [setKey(set.masks), meanGbs(set)]));
  return (masks) => {
    const used = masks.flatMap((mask, host) => (mask === 0 ? [] : [host]));
    const [host] = used;
    if (used.length === 1 && host !== undefined) {
      const intra = table.intraHost[host];
      const gbs = intra ? intraHostGbs(intra, masks[host] ?? 0) : undefined;
      if (gbs !== undefined) return gbs;
    }
    return meanByKey.get(setKey(masks));
  };
}

/** The same table with the tables of its hosts' own GPUs added, by host name. */
export function withIntraHost(
  table: BandwidthTable,
  intraByHost: ReadonlyMap<string, IntraHostTable>,
): BandwidthTable {
  return {
    ...table,
    intraHost: table.hosts.map(
      (host, index) => intraByHost.get(host) ?? table.intraHost[index] ?? null,
    ),
  };
}

function setKey(masks: readonly number[]): string {
  return masks.join("/");
}
