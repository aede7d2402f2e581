/** @file The drained hosts of a fleet with their reasons, in the fleet's order. */

import type { Ledger } from "../../client/index.ts";
import type { HostPlace } from "../../scheduling/ledger/rules/fleet-index.ts";

export interface DrainedHost extends HostPlace {
  readonly reason: string;
}

export function drainedHosts({ shape, hosts }: Ledger): readonly DrainedHost[] {
  return shape.clusters.flatMap((cluster) =>
    cluster.hosts.flatMap((host) => {
      const status = hosts.get(host.id);
      if (status?.isDrained !== true) return [];
      return [{ host, cluster, reason: status.drainReason ?? "no reason is known" }];
    }),
  );
}

/** `eu-1/host-3: bad NVLink`, one a line; beyond `most` only how many more. */
export function drainedLines(drained: readonly DrainedHost[], most: number): readonly string[] {
  const lines = drained.slice(0, most).map(({ host, reason }) => `${host.id}: ${reason}`);
  const more = drained.length - lines.length;
  return more > 0 ? [...lines, `… ${String(more)} more`] : lines;
}
