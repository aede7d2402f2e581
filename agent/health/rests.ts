/**
 * @file Takes a host out of service for a while where its prologue fails and it is not set aside, since too many are already or the fleet is small: the
 * launches there would fail one after the other, and each costs its job one of its runs.
 *
 * The first rest is a minute, each further one twice as long, at most an hour; a prologue that passes begins anew. A rest is a drain of the agent's own that
 * ends by itself. A host that somebody has drained has no rest; one that an operator has returned before the end, and whose prologue fails again, has the next.
 */

import type { HostId } from "../../domain/values/ids.ts";
import type { Clock } from "../ports/clock.ts";
import { instantText } from "./black-hole.ts";

export interface RestPorts {
  readonly clock: Pick<Clock, "nowMs" | "pause">;
  readonly closing: AbortSignal;
  readonly onNote: (note: string) => void;
  /** Fails where the fleet does not answer, or the host is drained already. */
  drain(host: HostId, reason: string): Promise<void>;
  /** Ends drains whose reasons begin so; any other stays. Fails where the fleet does not answer. */
  undrain(hosts: readonly HostId[], of: string): Promise<void>;
  /** Whether asking again would end the same way. */
  isRefusal(error: unknown): boolean;
}

export interface Rests {
  /** Returns when the rest is over. A host that rests already goes on resting, unless an operator has returned it: it rests anew. */
  begin(host: HostId, why: string): Promise<void>;
  /** Its prologue has passed. */
  passed(host: HostId): void;
  /** Those that a former agent of these hosts has left. */
  endOld(hosts: readonly HostId[]): Promise<void>;
}

/** How each reason of a host that rests begins. */
export const RESTS = "rests until ";
const FIRST_MS = 60_000;
const MOST_MS = 3_600_000;
const RETRY_MS = 5_000;
const DRAIN_TRIES = 3;

export function openRests(ports: RestPorts): Rests {
  const { clock, closing, onNote } = ports;
  const draining = new Set<HostId>();
  /** Calls off the end of a host's rest. */
  const resting = new Map<HostId, AbortController>();
  const next = new Map<HostId, number>();
  const isDrained = async (host: HostId, reason: string): Promise<boolean> => {
    draining.add(host);
    try {
      await drainPatiently(host, reason);
      onNote(`${host}: ${reason}`);
      return true;
    } catch (error) {
      // The next launch that is refused asks again.
      onNote(`${host}: is not known to be at rest (${String(error)}), though ${reason}`);
      return false;
    } finally {
      draining.delete(host);
    }
  };
  const drainPatiently = async (host: HostId, reason: string): Promise<void> => {
    for (let attempt = 1; attempt < DRAIN_TRIES; attempt += 1)
      try {
        return await ports.drain(host, reason);
      } catch (error) {
        if (ports.isRefusal(error) || closing.aborted) throw error;
        await clock.pause(RETRY_MS, closing);
      }
    return ports.drain(host, reason);
  };
  const rest = async (host: HostId, why: string): Promise<void> => {
    const forMs = next.get(host) ?? FIRST_MS;
    const reason = `${RESTS}${instantText(clock.nowMs() + forMs)}: ${why}`;
    if (await isDrained(host, reason)) next.set(host, Math.min(2 * forMs, MOST_MS));
    else if (resting.has(host)) return;
    resting.get(host)?.abort();
    const own = new AbortController();
    resting.set(host, own);
    const off = AbortSignal.any([closing, own.signal]);
    await clock.pause(forMs, off);
    // Of a drain that has failed, too: the fleet may have carried it out, and its answer was lost.
    await end([host], off);
    if (resting.get(host) === own) resting.delete(host);
  };
  /** The next agent ends what this one leaves. */
  const end = async (hosts: readonly HostId[], off: AbortSignal): Promise<void> => {
    while (!off.aborted) {
      try {
        await ports.undrain(hosts, RESTS);
        return;
      } catch (error) {
        onNote(`${hosts.join(", ")}: the end of a rest could not be told yet: ${String(error)}`);
        await clock.pause(RETRY_MS, off);
      }
    }
  };
  return {
    begin: async (host, why) => {
      if (!draining.has(host)) await rest(host, why);
    },
    passed: (host) => {
      next.delete(host);
    },
    endOld: (hosts) => end(hosts, closing),
  };
}
