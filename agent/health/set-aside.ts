/**
 * @file Sets a host aside in its fleet, and takes that back where too many are: then the jobs are to blame, or something that all hosts share.
 *
 * Several hosts may find evidence at once, and looking and draining are two calls. So each looks again after its drain, and undrains itself where
 * more are set aside than may be: whoever looks last sees all the others, so the limit holds once all have looked. It looks at a time of its own, so
 * that hosts give way one after the other. A host that anybody drained before keeps that drain.
 */

import type { HostId } from "../../domain/values/ids.ts";
import type { Clock } from "../ports/clock.ts";

export interface DrainedHost {
  readonly isDrained: boolean;
  readonly drainReason?: string;
}

export interface SeenFleet {
  readonly hostCount: number;
  /** Those that are drained, at least. */
  readonly hosts: ReadonlyMap<HostId, DrainedHost>;
}

export interface SetAsidePorts {
  readonly clock: Pick<Clock, "pause" | "elapsedMs">;
  readonly closing: AbortSignal;
  readonly onNote: (note: string) => void;
  /** It stays in service, since too many are set aside, too few hosts are there, or the fleet does not take the drain. */
  readonly onLeft: (host: HostId, reason: string) => void;
  /** These three fail where the fleet does not answer, or refuses. */
  look(): Promise<SeenFleet>;
  drain(host: HostId, reason: string): Promise<void>;
  /** Only where the host is drained for a reason that begins so. */
  undrain(host: HostId, of: string): Promise<void>;
  /** Whether asking again would end the same way. */
  isRefusal(error: unknown): boolean;
  /** Between drain and second look, milliseconds: another one each time. */
  waitMs(): number;
}

/** How each reason of a host that was set aside begins. */
export const SET_ASIDE = "set aside at ";
/** In a smaller fleet one host is too much to lose to evidence that jobs may have made. */
export const LEAST_HOSTS = 5;
const MOST_SET_ASIDE = 1 / 5;
const RETRY_MS = 5_000;
/** Evidence is no news after that. */
const GIVE_UP_MS = 3_600_000;

/** How many hosts of a fleet may be set aside at a time. */
export const mostSetAside = (hostCount: number): number =>
  hostCount < LEAST_HOSTS ? 0 : Math.floor(hostCount * MOST_SET_ASIDE);

/**
 * Sets hosts aside, each by one piece of evidence at a time: more about a host that is on its way is no news, and would drain it again once an
 * operator has taken the first drain back.
 */
export function asideKeeper(ports: SetAsidePorts): (host: HostId, reason: string) => Promise<void> {
  const onTheWay = new Set<HostId>();
  return async (host, reason) => {
    if (onTheWay.has(host)) {
      ports.onNote(`${host}: is being set aside already, and so not ${reason}`);
      return;
    }
    onTheWay.add(host);
    await setAside(host, reason, ports).finally(() => onTheWay.delete(host));
  };
}

/** Returns when the host is set aside, or will not be. `reason` begins with `SET_ASIDE`. */
export async function setAside(host: HostId, reason: string, ports: SetAsidePorts): Promise<void> {
  const { clock, closing, onNote } = ports;
  const begunMs = clock.elapsedMs();
  let isNoted = false;
  const progress = { hasDrained: false };
  while (!closing.aborted) {
    try {
      const { did, isLeft } = await onceAside({ host, reason }, progress, ports);
      onNote(`${host}: ${did}`);
      if (isLeft) ports.onLeft(host, reason);
      return;
    } catch (error) {
      const isOver = ports.isRefusal(error) || clock.elapsedMs() - begunMs >= GIVE_UP_MS;
      if (isOver || !isNoted)
        onNote(
          `${host}: not drained${isOver ? "" : " yet"} (${String(error)}), though to be ${reason}`,
        );
      if (isOver) return ports.onLeft(host, reason);
      isNoted = true;
      await clock.pause(RETRY_MS, closing);
    }
  }
}

/**
 * What was done, for the log. May be repeated: a drain whose answer was lost is found, and one that was answered is not given again, for an
 * operator may have taken it back since.
 */
async function onceAside(
  { host, reason }: { readonly host: HostId; readonly reason: string },
  progress: { hasDrained: boolean },
  ports: SetAsidePorts,
): Promise<{ readonly did: string; readonly isLeft: boolean }> {
  const seen = await ports.look();
  const status = seen.hosts.get(host);
  if (status?.isDrained === true && !isOwn(status, reason))
    return { did: `drained already, and so not ${reason}`, isLeft: false };
  if (status?.isDrained !== true && !progress.hasDrained) {
    if (asideIn(seen) >= mostSetAside(seen.hostCount)) return left(seen, reason);
    await ports.drain(host, reason);
    progress.hasDrained = true;
  }
  await ports.clock.pause(ports.waitMs(), ports.closing);
  const now = await ports.look();
  if (asideIn(now) <= mostSetAside(now.hostCount)) return { did: reason, isLeft: false };
  // An operator may have given another reason meanwhile.
  if (isOwn(now.hosts.get(host), reason)) await ports.undrain(host, SET_ASIDE);
  return left(now, reason);
}

/** The ledger cuts long reasons. */
const isOwn = (status: DrainedHost | undefined, reason: string): boolean =>
  status?.drainReason?.startsWith(SET_ASIDE) === true && reason.startsWith(status.drainReason);

const asideIn = ({ hosts }: SeenFleet): number =>
  [...hosts.values()].filter(
    ({ isDrained, drainReason }) => isDrained && drainReason?.startsWith(SET_ASIDE) === true,
  ).length;

const left = ({ hostCount }: SeenFleet, reason: string) => ({
  did: `not drained, for of ${hostCount} hosts at most ${mostSetAside(hostCount)} may be set aside; ${reason}`,
  isLeft: true,
});
