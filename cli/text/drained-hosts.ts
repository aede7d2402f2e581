/** @file The drained hosts and GPUs of a fleet with their reasons, in the fleet's order, and the drains that are planned. */

import { membersOf } from "../../lib/bits.ts";
import type { Ledger } from "../../client/index.ts";
import type { PlannedDrain } from "../../protocol/timed-drain.ts";
import type { HostPlace } from "../../scheduling/ledger/rules/fleet-index.ts";
import { timeText } from "../terminal/duration.ts";

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

export interface DrainedGpus extends HostPlace {
  readonly gpus: readonly number[];
  readonly reason: string;
  readonly sinceMs: number;
}

/** The drained GPUs of hosts that are in service otherwise, or not; one entry for each drain. */
export const drainedGpus = ({ shape, hosts }: Ledger): readonly DrainedGpus[] =>
  shape.clusters.flatMap((cluster) =>
    cluster.hosts.flatMap((host) =>
      (hosts.get(host.id)?.gpuDrains ?? []).map(({ mask, reason, sinceMs }) => ({
        ...{ host, cluster, gpus: membersOf(mask), sinceMs },
        reason: reason === "" ? "no reason is known" : reason,
      })),
    ),
  );

/** `eu-1/host-3 GPU 3, since 2026-03-01 22:00: ECC errors`, one a line. */
export const drainedGpuLines = (drained: readonly DrainedGpus[], most: number): readonly string[] =>
  shortened(
    drained.map(
      ({ host, gpus, sinceMs, reason }) =>
        `${host.id} ${gpusText(gpus)}, since ${timeText(sinceMs)}: ${reason}`,
    ),
    most,
  );

export const allDrainedLines = (
  hosts: readonly DrainedHost[],
  gpus: readonly DrainedGpus[],
  most: number,
): readonly string[] => [...drainedLines(hosts, most), ...drainedGpuLines(gpus, most)];

export const drainedGpusDocument = ({ host, gpus, reason, sinceMs }: DrainedGpus): object => {
  return { host: host.id, gpus, reason, sinceMs };
};

/** `GPU 3`, `GPUs 3, 5`. */
export const gpusText = (gpus: readonly number[]): string =>
  `GPU${gpus.length === 1 ? "" : "s"} ${gpus.join(", ")}`;

/** `eu-1/host-3: bad NVLink`, one a line; beyond `most` only how many more. */
export const drainedLines = (drained: readonly DrainedHost[], most: number): readonly string[] =>
  shortened(
    drained.map(({ host, reason }) => `${host.id}: ${reason}`),
    most,
  );

/** `eu-1/host-3 on 2026-03-01 22:00 by ada: new firmware`, one a line. */
export const plannedLines = (planned: readonly PlannedDrain[], most: number): readonly string[] =>
  shortened(
    planned.map(({ host, atMs, by, reason }) => `${host} on ${timeText(atMs)} by ${by}: ${reason}`),
    most,
  );

function shortened(all: readonly string[], most: number): readonly string[] {
  const more = all.length - most;
  return more > 0 ? [...all.slice(0, most), `… ${String(more)} more`] : all;
}
