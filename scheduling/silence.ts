/**
 * @file Hosts that do not answer: since when, and from when on their GPUs may be granted again.
 *
 * Silence is a suspicion, not proof. A silent host is offered nothing new, and keeps what it has until its agent reports, an
 * operator fences it, or its fence time has passed, by when its agent has stopped everything (DESIGN, "Silence"). Fencing counts every
 * part of a lease there as confirmed empty. When more than a fifth of the agents are silent at once, and more than one, the
 * outage is taken for ours: no clock fences anybody until that is over, and then the clocks start anew.
 * Cost: O(hosts) a check; O(leases) a fence.
 */

import type { HostId } from "../domain/ids.ts";
import { confirmVacated, noteChange, setHost, type Draft } from "./draft.ts";
import type { HostStanding, InboxEntry, Ledger } from "./ledger.ts";
import { isMassSilence } from "./mass-silence.ts";

export { isMassSilence, MASS_SILENCE_SHARE } from "./mass-silence.ts";

export function applySilence(
  draft: Draft,
  { hosts, epoch }: Extract<InboxEntry, { kind: "silence" }>,
  nowMs: number,
): void {
  for (const host of hosts) {
    const standing = draft.hosts.get(host);
    if (standing?.agent?.epoch !== epoch || standing.silentSinceMs !== undefined) continue;
    setHost(draft, host, { ...standing, silentSinceMs: nowMs });
    noteChange(draft);
  }
}

/** The same standing of a host that answers. */
export function withoutSilence(standing: HostStanding): HostStanding {
  const { silentSinceMs: _silent, isFenced: _fenced, fencedAtMs: _at, ...rest } = standing;
  return rest;
}

/** Nothing of what ran there counts any more; the host is offered again when an agent has reported. */
export function fenceHost(draft: Draft, host: HostId, nowMs: number): void {
  const standing = draft.hosts.get(host) ?? { isDrained: false };
  const { agent, fenceMs: _agreed, ...rest } = withoutSilence(standing);
  const lastEpoch = agent?.epoch ?? rest.lastEpoch;
  if (standing.isFenced !== true || agent !== undefined) {
    setHost(draft, host, {
      ...rest,
      isFenced: true,
      fencedAtMs: nowMs,
      ...(lastEpoch !== undefined && { lastEpoch }),
    });
    noteChange(draft);
  }
  for (const lease of [...draft.leases.values()]) {
    if (lease.gpus.some((part) => part.host === host)) confirmVacated(draft, lease, [host]);
  }
}

/** Fences the hosts whose time has come. */
export function fenceSilent(draft: Draft, nowMs: number): void {
  if (isMassSilence(draft.hosts)) return;
  for (const [host, standing] of [...draft.hosts]) {
    const dueAtMs = fenceAtMs(standing);
    if (dueAtMs !== undefined && dueAtMs <= nowMs) fenceHost(draft, host, nowMs);
  }
}

/** When a clock next has to look; undefined when none runs. */
export function nextFenceAtMs({ hosts }: Pick<Ledger, "hosts">): number | undefined {
  if (isMassSilence(hosts)) return undefined;
  let nextAtMs: number | undefined;
  for (const standing of hosts.values()) {
    const dueAtMs = fenceAtMs(standing);
    if (dueAtMs !== undefined) nextAtMs = Math.min(nextAtMs ?? Infinity, dueAtMs);
  }
  return nextAtMs;
}

/** When the clock fences the host, should nothing change; undefined when it will not. */
export const fenceAtMs = ({ silentSinceMs, fenceMs }: HostStanding): number | undefined =>
  silentSinceMs === undefined || fenceMs === undefined ? undefined : silentSinceMs + fenceMs;

/** After an outage of ours the hosts that are still silent get their whole time. */
export function restartClocks(draft: Draft, nowMs: number): void {
  const wasMassSilent = draft.wasMassSilent === true;
  draft.wasMassSilent = undefined;
  if (!wasMassSilent || isMassSilence(draft.hosts)) return;
  for (const [host, standing] of draft.hosts) {
    if (standing.silentSinceMs === undefined) continue;
    setHost(draft, host, { ...standing, silentSinceMs: nowMs });
  }
  draft.wasMassSilent = undefined;
}
