/**
 * @file The expected cost of a measuring run: seconds on each host, GPU-hours in total.
 *
 * A set takes as long as the paper's table 3 has it for the type of its GPUs (seconds for 256 sets of one host, start of the program
 * included), or as long as the sets of that type have taken here, once some have. A type without any time takes the median of the
 * table. Over several hosts the paper gives no times: `BETWEEN_FACTOR` times the slowest member, for the launcher has to reach every
 * host first. Hosts are measured at the same time, groups of hosts after them; all GPUs of a host are held while it is measured.
 */

import { median } from "../../lib/median.ts";

/** Table 3 of the paper: seconds for the sets inside one host. */
const PAPER_TABLE_3: ReadonlyMap<string, number> = new Map([
  ["4090", 503],
  ["V100", 534],
  ["A6000", 866],
  ["A800", 1_512],
  ["H100", 1_288],
]);
const PAPER_SETS = 256;

/** Assumed until sets over several hosts have been timed. */
const BETWEEN_FACTOR = 2;

export interface HostWork {
  readonly host: string;
  readonly gpuType: string;
  readonly gpuCount: number;
  /** Sets that are still to be measured inside it. */
  readonly sets: number;
  /** Seconds a set, from what was timed here; absent when nothing was. */
  readonly timedSeconds?: number;
}

interface GroupWork {
  readonly hosts: readonly HostWork[];
  /** Sets over these hosts. */
  readonly sets: number;
  readonly timedSeconds?: number;
}

interface HostCost extends HostWork {
  readonly seconds: number;
  /** Where the seconds a set are from. */
  readonly basis: "timed here" | "paper" | "median of the paper";
  /** What the paper took for all sets of such a host. */
  readonly paperSeconds?: number;
}

export interface MeasuringCost {
  readonly hosts: readonly HostCost[];
  readonly groups: readonly (GroupWork & { readonly seconds: number })[];
  /** From the first to the last set, when all GPUs are free at once. */
  readonly wallSeconds: number;
  /** GPUs times the time for which they are held. */
  readonly gpuHours: number;
}

export function measuringCost(
  hosts: readonly HostWork[],
  groups: readonly GroupWork[],
): MeasuringCost {
  const hostCosts = hosts.map(hostCost);
  const groupCosts = groups.map((group) => ({ ...group, seconds: groupSeconds(group) }));
  const inside = Math.max(0, ...hostCosts.map(({ seconds }) => seconds));
  const between = groupCosts.reduce((sum, { seconds }) => sum + seconds, 0);
  const gpuSeconds =
    hostCosts.reduce((sum, { seconds, gpuCount }) => sum + seconds * gpuCount, 0) +
    groupCosts.reduce((sum, group) => sum + group.seconds * gpusOf(group), 0);
  return {
    hosts: hostCosts,
    groups: groupCosts,
    wallSeconds: inside + between,
    gpuHours: gpuSeconds / 3_600,
  };
}

/** How many sets over these hosts fit into a time. */
export function setsWithin(seconds: number, group: Omit<GroupWork, "sets">): number {
  const one = groupSeconds({ ...group, sets: 1 });
  return one <= 0 ? 0 : Math.max(0, Math.floor(seconds / one));
}

function hostCost(work: HostWork): HostCost {
  const paperSeconds = paperFor(work.gpuType);
  const { seconds, basis } = secondsASet(work);
  return {
    ...work,
    seconds: seconds * work.sets,
    basis,
    ...(paperSeconds !== undefined && { paperSeconds }),
  };
}

function groupSeconds({ hosts, sets, timedSeconds }: GroupWork): number {
  const slowest = Math.max(0, ...hosts.map((host) => secondsASet(host).seconds));
  return sets * (timedSeconds ?? BETWEEN_FACTOR * slowest);
}

function secondsASet({ gpuType, timedSeconds }: HostWork): Pick<HostCost, "seconds" | "basis"> {
  if (timedSeconds !== undefined) return { seconds: timedSeconds, basis: "timed here" };
  const paper = paperFor(gpuType);
  if (paper !== undefined) return { seconds: paper / PAPER_SETS, basis: "paper" };
  const usual = median([...PAPER_TABLE_3.values()]);
  return { seconds: usual / PAPER_SETS, basis: "median of the paper" };
}

/** `RTX4090` is the paper's 4090, `A100` is not its A800. */
function paperFor(gpuType: string): number | undefined {
  const plain = gpuType.toUpperCase().replace(/[^A-Z0-9]/g, "");
  return PAPER_TABLE_3.get(plain) ?? PAPER_TABLE_3.get(plain.replace(/^RTX/, ""));
}

const gpusOf = ({ hosts }: GroupWork): number =>
  hosts.reduce((sum, { gpuCount }) => sum + gpuCount, 0);
