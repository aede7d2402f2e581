/**
 * @file Merges several tables into one: each set once, with all its measurements in the order of the tables.
 *
 * Where a set was measured by all_reduce and by other collectives, only all_reduce is kept. A collective or message size on which the
 * tables disagree is left out as unknown.
 */

import type { BandwidthTable, MeasuredSet } from "./bandwidth-table.ts";

export function mergedTables(tables: readonly BandwidthTable[]): BandwidthTable {
  const hosts = [...new Set(tables.flatMap((table) => table.hosts))];
  const op = agreed(tables.map((table) => table.op));
  const messageBytes = agreed(tables.map((table) => table.messageBytes));
  return {
    hosts,
    intraHost: hosts.map(
      (host) =>
        tables.flatMap(({ hosts: own, intraHost }) => intraHost[own.indexOf(host)] ?? [])[0] ??
        null,
    ),
    sets: mergedSets(tables, hosts),
    ...(op !== undefined && { op }),
    ...(messageBytes !== undefined && { messageBytes }),
  };
}

interface Gathered extends MeasuredSet {
  readonly isAllReduce: boolean;
}

function mergedSets(tables: readonly BandwidthTable[], hosts: readonly string[]): MeasuredSet[] {
  const byKey = new Map<string, Gathered>();
  for (const table of tables) {
    const isAllReduce = table.op?.startsWith("all_reduce") ?? false;
    const indexByHost = new Map(table.hosts.map((host, index) => [host, index]));
    for (const set of table.sets) {
      const masks = hosts.map((host) => set.masks[indexByHost.get(host) ?? -1] ?? 0);
      const key = masks.join("/");
      const former = byKey.get(key);
      if (former?.isAllReduce === true && !isAllReduce) continue;
      const isSameKind = former?.isAllReduce === isAllReduce;
      byKey.set(key, {
        masks,
        gbs: isSameKind ? [...former.gbs, ...set.gbs] : set.gbs,
        isAllReduce,
      });
    }
  }
  return [...byKey.values()].map(({ masks, gbs }) => ({ masks, gbs }));
}

function agreed<Value>(values: readonly (Value | undefined)[]): Value | undefined {
  return new Set(values).size === 1 ? values[0] : undefined;
}
