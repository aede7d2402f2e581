/**
 * @file The barrier between the two phases of a gang's start: no host starts a process before all of them are prepared.
 *
 * Every agent looks at the heartbeats of its siblings, with a pause that grows from 50 ms to 1 s, until each host has said
 * `prepared` or `running` under this token; a host that was seen once counts. A host that is missing when the time is over fails the
 * start, by its name. Because only unfinished activities can be looked at, a host whose processes end at once does not finish
 * before its siblings have left the barrier (`awaitSiblings`).
 *
 * An agent that was frozen, or whose host slept, may hold orders that were given up meanwhile, and nothing tells it. Nor does anything tell one that
 * has said that nothing runs while the order was on its way. So for some time after a silence, and for an order from before a report, its own heartbeat must be seen
 * with the server as well: that of an attempt which nobody waits for is not taken there, and one that has been cancelled does not count.
 */

import type { HostId } from "../../domain/values/ids.ts";
import type { RunOrder } from "../../protocol/agent-contract.ts";
import type { Clock } from "../ports/clock.ts";
import type { GangWatcher } from "../ports/temporal.ts";
import { failure } from "../system/failures.ts";

export type GangStart =
  | {
      readonly kind: "ready";
      readonly masterPort: number;
      /** All hosts of the gang have the same build of the collectives plugin. */
      readonly isTuned?: true;
    }
  /** The signal came, or the job is gone: nothing may start. */
  | { readonly kind: "halted" };

const PAUSE_MS = 50;
const PAUSE_MAX_MS = 1_000;
const PAUSE_GROWTH = 1.5;
/** Longer than a heartbeat timeout: a sibling that is `prepared` for longer than that is no longer pending. */
const LINGER_MS = 90_000;
const LINGER_LOOK_MS = 150;

export interface GangWait {
  readonly gang: GangWatcher;
  readonly clock: Clock;
  /** The port of rank 0, when this host is the one that picked it. */
  readonly masterPort: number | undefined;
  /** The order may have been given up, and this host not told. */
  readonly isInDoubt: boolean;
  /** Which build of the collectives plugin this host has. */
  readonly tuner?: string | undefined;
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
}

export async function awaitGang(
  order: RunOrder,
  { gang, clock, masterPort, isInDoubt, tuner, signal, timeoutMs }: GangWait,
): Promise<GangStart> {
  const first = order.gang[0]?.host;
  const missing = new Set<HostId>([...siblingsOf(order), ...(isInDoubt ? [order.host] : [])]);
  /** From the first heartbeat of each sibling: a build never changes under one token. */
  const tuners = new Map<HostId, string | undefined>();
  let port = masterPort;
  let trouble = "";
  const untilMs = clock.elapsedMs() + timeoutMs;
  for (let pauseMs = PAUSE_MS; ; pauseMs = Math.min(pauseMs * PAUSE_GROWTH, PAUSE_MAX_MS)) {
    if (signal.aborted) return { kind: "halted" };
    if (missing.size === 0 && port !== undefined) {
      const isTuned = tuner !== undefined && [...tuners.values()].every((each) => each === tuner);
      return { kind: "ready", masterPort: port, ...(isTuned && { isTuned }) };
    }
    try {
      const { isClosed, beats } = await gang.look(order);
      if (isClosed) return { kind: "halted" };
      for (const beat of beats.filter(({ token }) => token === order.token)) {
        if (missing.delete(beat.host)) tuners.set(beat.host, beat.tuner);
        if (beat.host === first) port ??= beat.masterPort;
      }
      trouble = "";
      if (missing.size === 0 && port !== undefined) continue;
    } catch (error) {
      // The server does not answer: only the time limit ends this.
      trouble = ` The last look failed: ${error instanceof Error ? error.message : String(error)}.`;
    }
    if (clock.elapsedMs() > untilMs) throw notReady(order, { missing, trouble, timeoutMs });
    await clock.pause(pauseMs, signal);
  }
}

export interface SiblingWait extends Pick<GangWait, "gang" | "clock" | "signal"> {
  /** When this host left the barrier, by `Clock.elapsedMs`. */
  readonly barrierAtMs: number;
}

/**
 * Called by a host that has ended soon after the start: waits until no sibling is still at the barrier. A finished activity
 * cannot be looked at, so a host that left too early would be missing for a sibling that has not looked yet.
 */
export async function awaitSiblings(
  order: RunOrder,
  { gang, clock, signal, barrierAtMs }: SiblingWait,
): Promise<void> {
  const untilMs = barrierAtMs + LINGER_MS;
  const siblings = new Set(siblingsOf(order));
  while (siblings.size > 0 && clock.elapsedMs() < untilMs && !signal.aborted) {
    try {
      const { beats } = await gang.look(order);
      const waiting = beats.filter(
        ({ token, phase }) => token === order.token && phase === "prepared",
      );
      const isWaiting = new Set(waiting.map((beat) => beat.host));
      for (const host of siblings) if (!isWaiting.has(host)) siblings.delete(host);
    } catch {
      // The server does not answer, and the wait is bounded.
    }
    if (siblings.size > 0) await clock.pause(LINGER_LOOK_MS, signal);
  }
}

const siblingsOf = ({ gang, host }: RunOrder): readonly HostId[] =>
  gang.map((part) => part.host).filter((other) => other !== host);

function notReady(
  order: RunOrder,
  {
    missing,
    trouble,
    timeoutMs,
  }: {
    readonly missing: ReadonlySet<HostId>;
    readonly trouble: string;
    readonly timeoutMs: number;
  },
): Error {
  const names =
    missing.size > 0
      ? [...missing].join(", ")
      : `${order.gang[0]?.host ?? "rank 0"} (its port is not known)`;
  return failure(
    "GANG_NOT_READY",
    `${order.leaseId} needs all ${order.gang.length} hosts; ${order.host} has waited ${timeoutMs / 1000} s for ${names}.${trouble} ` +
      "Check that their agents run.",
  );
}
