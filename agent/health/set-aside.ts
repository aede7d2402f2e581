/**
 * @file Sets a host aside in its fleet, and takes that back where too many are: then the jobs are to blame, or something that all hosts share.
 *
 * Several hosts may find evidence at once, and looking and draining are two calls. So each looks again after its drain, and undrains itself where
 * more are set aside than may be: whoever looks last sees all the others, so the limit holds once all have looked. It looks at a time of its own, so
 * that hosts give way one after the other. The hosts of one agent look and act in turn, so none of them is drained for a moment beyond the limit. A host
 * that anybody drained before keeps that drain.
 */

import type { HostId } from "../../domain/values/ids.ts";
import type { Clock } from "../ports/clock.ts";

export interface DrainedHost {
  readonly isDrained: boolean;
  readonly drainReason?: string;
  /** Of single GPUs. */
  readonly gpuDrains?: readonly { readonly mask: number; readonly reason: string }[];
}

export interface SeenFleet {
  readonly hostCount: number;
  /** Of the fleet's ledger. */
  readonly rules: number;
  /** Those that are drained, at least. */
  readonly hosts: ReadonlyMap<HostId, DrainedHost>;
}

/** Carries one thing out after the other. */
type InTurn = <Result>(act: () => Promise<Result>) => Promise<Result>;

export interface SetAsidePorts {
  readonly clock: Pick<Clock, "pause" | "elapsedMs">;
  readonly closing: AbortSignal;
  readonly onNote: (note: string) => void;
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

/** `left`: it stays in service, since too many are set aside, too few hosts are there, or the fleet does not take the drain. */
export type AsideResult = "aside" | "left";

/**
 * Sets hosts aside, each by one piece of evidence at a time: more about a host that is on its way is no news, and would drain it again once an
 * operator has taken the first drain back.
 */
export function asideKeeper(
  ports: SetAsidePorts,
): (host: HostId, reason: string) => Promise<AsideResult> {
  const onTheWay = new Set<HostId>();
  let last: Promise<unknown> = Promise.resolve();
  const inTurn: InTurn = (act) => {
    const result = last.then(act);
    last = result.catch(() => undefined);
    return result;
  };
  return async (host, reason) => {
    if (onTheWay.has(host)) {
      ports.onNote(`${host}: is being set aside already, and so not ${reason}`);
      return "aside";
    }
    onTheWay.add(host);
    return setAside(host, reason, { ...ports, inTurn }).finally(() => onTheWay.delete(host));
  };
}

/** Returns when the host is set aside, or will not be. `reason` begins with `SET_ASIDE`. */
export async function setAside(
  host: HostId,
  reason: string,
  ports: SetAsidePorts & { readonly inTurn: InTurn },
): Promise<AsideResult> {
  const { clock, closing, onNote } = ports;
  const begunMs = clock.elapsedMs();
  let isNoted = false;
  const progress = { hasDrained: false };
  while (!closing.aborted) {
    try {
      const { did, isLeft } = await onceAside({ host, reason }, progress, ports);
      onNote(`${host}: ${did}`);
      return isLeft ? "left" : "aside";
    } catch (error) {
      const isOver = ports.isRefusal(error) || clock.elapsedMs() - begunMs >= GIVE_UP_MS;
      if (isOver || !isNoted)
        onNote(
          `${host}: not drained${isOver ? "" : " yet"} (${String(error)}), though to be ${reason}`,
        );
      if (isOver) return "left";
      isNoted = true;
      await clock.pause(RETRY_MS, closing);
    }
  }
  return "aside";
}

/**
 * What was done, for the log. May be repeated: a drain whose answer was lost is found, and one that was answered is not given again, for an
 * operator may have taken it back since.
 */
async function onceAside(
  { host, reason }: { readonly host: HostId; readonly reason: string },
  progress: { hasDrained: boolean },
  ports: SetAsidePorts & { readonly inTurn: InTurn },
): Promise<Done> {
  const done = await ports.inTurn(async (): Promise<Done | undefined> => {
    const seen = await ports.look();
    const status = seen.hosts.get(host);
    if (status?.isDrained === true && !isOwn(status, reason))
      return { did: `drained already, and so not ${reason}`, isLeft: false };
    if (status?.isDrained === true || progress.hasDrained) return undefined;
    if (asideIn(seen) >= mostSetAside(seen.hostCount)) return left(seen, reason);
    await ports.drain(host, reason);
    progress.hasDrained = true;
    return undefined;
  });
  if (done !== undefined) return done;
  await ports.clock.pause(ports.waitMs(), ports.closing);
  return ports.inTurn(async () => {
    const now = await ports.look();
    if (asideIn(now) <= mostSetAside(now.hostCount)) return { did: reason, isLeft: false };
    // An operator may have given another reason meanwhile.
    if (isOwn(now.hosts.get(host), reason)) await ports.undrain(host, SET_ASIDE);
    return left(now, reason);
  });
}

interface Done {
  readonly did: string;
  readonly isLeft: boolean;
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
