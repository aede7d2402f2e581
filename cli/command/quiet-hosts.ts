/**
 * @file Silent hosts as text: since when, when they are or were fenced, and what they hold.
 *
 * Times are the fleet's; a difference of clocks makes the seconds wrong, but never negative. Cost: O(hosts + GPU sets in
 * leases).
 */

import type { LeaseId, Ledger } from "../../client/index.ts";
import type { HostId } from "../../domain/values/ids.ts";
import { popCount } from "../../domain/lease/lease.ts";
import type { HostPlace } from "../../scheduling/ledger/rules/fleet-index.ts";
import { countAgents } from "../../scheduling/ledger/apply/mass-silence.ts";
import { fenceAtMs, isMassSilence } from "../../scheduling/ledger/apply/host-silence.ts";
import { takenGpus } from "../../scheduling/ledger/rules/usage.ts";
import { counted, durationText } from "../terminal/duration.ts";

export interface QuietHost {
  readonly place: HostPlace;
  readonly silence: Silence;
  readonly leases: readonly LeaseId[];
  /** GPUs of those leases on this host. */
  readonly gpus: number;
}

/** The next event; `stopped`: so many hosts are silent at once that no fence time runs. */
export type Silence =
  | { readonly kind: "fenced"; readonly fencedAgoMs?: number }
  | { readonly kind: "fence-due"; readonly silentMs: number; readonly fencedInMs: number }
  | { readonly kind: "stopped" | "held"; readonly silentMs: number };

/** In the fleet's order. */
export function quietHosts(ledger: Ledger, nowMs: number): readonly QuietHost[] {
  const held = new Map<HostId, { leases: LeaseId[]; gpus: number }>();
  for (const lease of ledger.leases.values()) {
    for (const { host, mask } of takenGpus(lease)) {
      if (lease.vacatedHosts?.includes(host) === true) continue;
      const there = held.get(host) ?? { leases: [], gpus: 0 };
      held.set(host, there);
      there.leases.push(lease.id);
      there.gpus += popCount(mask);
    }
  }
  return ledger.shape.clusters.flatMap((cluster) =>
    cluster.hosts.flatMap((host) => {
      const silence = silenceOf(ledger, host.id, nowMs);
      if (silence === undefined) return [];
      const { leases, gpus } = held.get(host.id) ?? { leases: [], gpus: 0 };
      return [{ place: { host, cluster }, silence, leases, gpus }];
    }),
  );
}

function silenceOf({ hosts }: Ledger, host: HostId, nowMs: number): Silence | undefined {
  const status = hosts.get(host);
  if (status?.isFenced === true) {
    const { fencedAtMs } = status;
    if (fencedAtMs === undefined) return { kind: "fenced" };
    return { kind: "fenced", fencedAgoMs: Math.max(0, nowMs - fencedAtMs) };
  }
  if (status?.silentSinceMs === undefined) return undefined;
  const silentMs = Math.max(0, nowMs - status.silentSinceMs);
  const dueAtMs = fenceAtMs(status);
  if (dueAtMs === undefined) return { kind: "held", silentMs };
  if (isMassSilence(hosts)) return { kind: "stopped", silentMs };
  return { kind: "fence-due", silentMs, fencedInMs: Math.max(0, dueAtMs - nowMs) };
}

/** `eu-1/host-3: silent for 2m00s, fenced in 8m00s (2 leases, 12 GPUs)`, one a line; beyond `most` only how many more. */
export function quietLines(quiet: readonly QuietHost[], most: number): readonly string[] {
  const lines = quiet.slice(0, most).map(({ place, silence, leases, gpus }) => {
    const held =
      leases.length === 0 ? "" : ` (${counted(leases.length, "lease")}, ${counted(gpus, "GPU")})`;
    return `${place.host.id}: ${silenceText(silence)}${held}`;
  });
  const more = quiet.length - lines.length;
  return more > 0 ? [...lines, `… ${String(more)} more`] : lines;
}

/** The same for `--json`. */
export const quietDocument = ({ place, silence, leases, gpus }: QuietHost): object => ({
  host: place.host.id,
  ...silence,
  leases,
  gpus,
});

/** `silent for 2m00s, fenced in 8m00s` */
export function silenceText(silence: Silence): string {
  switch (silence.kind) {
    case "fenced": {
      const { fencedAgoMs } = silence;
      const ago = fencedAgoMs === undefined ? "" : ` ${durationText(fencedAgoMs)} ago`;
      return `fenced${ago}, used again when its agent registers`;
    }
    case "fence-due":
      return `silent for ${durationText(silence.silentMs)}, fenced in ${durationText(silence.fencedInMs)}`;
    case "stopped":
      return `silent for ${durationText(silence.silentMs)}, its fence time is stopped`;
    case "held":
      return `silent for ${durationText(silence.silentMs)}, held until it answers`;
  }
}

/** The meaning of many silent agents at once, and the remedy; empty when the fence times run. */
export function massSilenceLines({ hosts }: Ledger): readonly string[] {
  if (!isMassSilence(hosts)) return [];
  const { agents, silent } = countAgents(hosts);
  return [
    `${String(silent)} of ${String(agents)} agents are silent at once. That counts as an outage on`,
    "this side: no host is fenced until it is over. Check the network and",
    "the Temporal server. If the machines are really gone: orbweaver fence HOST…",
  ];
}
