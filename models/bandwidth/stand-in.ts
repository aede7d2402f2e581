/**
 * @file Answers like nccl-tests from measured tables, for fleets whose GPUs are made up.
 *
 * Sets of one host read its table. Sets over hosts read the mean of what was measured for the same multiset of GPU counts, if all
 * hosts are of the type that the inter-host file is of; else the least of the hosts' own values and a quarter of that (BandPilot
 * §5.1.1). Messages of another size than the tables' are answered by α–β. Noise is a factor drawn by seed, set and reading, so a run that is resumed reads what it would have read. The answer is
 * text as nccl-tests prints it, so that it goes the way of real output.
 */

import { meanGbs, type BandwidthTable } from "../../domain/bandwidth/bandwidth-table.ts";
import { sharesKey, type HostShares } from "../../domain/bandwidth/measuring.ts";
import { USUAL_MESSAGES } from "../../domain/bandwidth/message-profile.ts";
import { randomFrom } from "../../lib/random.ts";
import { usualRatio } from "./size-transfer.ts";
import { popCount } from "../../domain/lease/lease.ts";
import { membersOf } from "../../lib/bits.ts";

export interface StandInTables {
  readonly intra: BandwidthTable;
  readonly inter?: BandwidthTable;
}

interface StandInDraw {
  readonly seed: number;
  readonly noise: number;
  /** Counts the readings of one set. */
  readonly reading: number;
}

/** What part of the measured fabric hosts of other types have. */
const OTHER_FABRIC_SHARE = 0.25;

/** Hosts by their names in the tables; undefined where the tables do not say. */
export function standInGbs(
  tables: StandInTables,
  shares: HostShares,
  bytes: number = USUAL_MESSAGES.bytes,
): number | undefined {
  const gbs = measuredGbs(tables, shares);
  if (gbs === undefined) return undefined;
  const fromBytes = tables.inter?.messageBytes ?? USUAL_MESSAGES.bytes;
  const kind = shares.length === 1 ? "inside" : "across";
  return gbs * usualRatio(gbs, { fromBytes, toBytes: bytes, kind });
}

function measuredGbs(tables: StandInTables, shares: HostShares): number | undefined {
  const inside = shares.map(([host, mask]) => insideGbs(tables.intra, host, mask));
  const slowest = inside.reduce<number | undefined>(
    (least, gbs) => (least === undefined || gbs === undefined ? undefined : Math.min(least, gbs)),
    Infinity,
  );
  if (shares.length === 1 || slowest === undefined) return slowest;
  const fabric = fabricGbs(tables.inter, shares);
  if (fabric === undefined) return undefined;
  const isMeasuredType = shares.every(([host]) => typeOf(host) === fabricType(tables));
  return isMeasuredType ? fabric : Math.min(slowest, fabric * OTHER_FABRIC_SHARE);
}

/** The same with noise. */
export function drawnGbs(gbs: number, shares: HostShares, draw: StandInDraw): number {
  const { seed, noise, reading } = draw;
  const random = randomFrom(seed, `${sharesKey(shares)} ${String(reading)}`);
  return gbs * Math.max(0.1, 1 + noise * random.normal());
}

/** Output of all_reduce_perf on these GPUs, at this bus bandwidth. */
export function ncclTestsText(
  shares: HostShares,
  gbs: number,
  bytes: number = USUAL_MESSAGES.bytes,
): string {
  const ranks = shares.flatMap(([host, mask]) => membersOf(mask).map((gpu) => ({ host, gpu })));
  const algbw = (gbs * ranks.length) / (2 * (ranks.length - 1));
  const us = bytes / (algbw * 1e3);
  const figures = `${us.toFixed(2)} ${algbw.toFixed(4)} ${gbs.toFixed(4)} 0`;
  return [
    `# nThread 1 nGpus 1 minBytes ${String(bytes)} maxBytes ${String(bytes)} step: 1048576(bytes) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0`,
    "#",
    "# Using devices",
    ...ranks.map(
      ({ host, gpu }, rank) =>
        `#  Rank ${String(rank).padStart(2)} Group  0 Pid ${String(1_000 + rank)} on ${host.replace("/", "-")} device ${String(gpu).padStart(2)} [0x0${String(gpu)}] stand-in`,
    ),
    "#",
    "#                                                              out-of-place                       in-place",
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong",
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)",
    `    ${String(bytes)}       ${String(bytes / 4)}     float     sum      -1  ${figures}  ${figures}`,
    "# Out of bounds values : 0 OK",
    `# Avg bus bandwidth    : ${gbs.toFixed(4)}`,
    "#",
    "",
  ].join("\n");
}

function insideGbs(intra: BandwidthTable, host: string, mask: number): number | undefined {
  if (popCount(mask) === 1) return Infinity;
  return intra.intraHost[intra.hosts.indexOf(host)]?.gbsByMask[mask] ?? undefined;
}

function fabricGbs(inter: BandwidthTable | undefined, shares: HostShares): number | undefined {
  const key = countsKey(shares.map(([, mask]) => mask));
  const alike = inter?.sets.filter(({ masks }) => countsKey(masks) === key) ?? [];
  return alike.length === 0
    ? undefined
    : alike.reduce((sum, set) => sum + meanGbs(set), 0) / alike.length;
}

const countsKey = (masks: readonly number[]): string =>
  masks
    .map((mask) => popCount(mask))
    .filter((count) => count > 0)
    .sort((a, b) => b - a)
    .join("+");

const typeOf = (host: string): string => host.replace(/[_-]\d+$/, "");

/** The type of which the intra-host file has as many hosts as the inter-host file has in all. */
function fabricType({ intra, inter }: StandInTables): string | undefined {
  const types = [...new Set(intra.hosts.map(typeOf))];
  return types.find(
    (type) => intra.hosts.filter((host) => typeOf(host) === type).length === inter?.hosts.length,
  );
}
