/**
 * @file Runs a check again and again, an operator's program or that of the GPUs: one that fails drains the agent's hosts at once, one that passes
 * brings them back.
 *
 * Only a drain of this kind is ended by a pass; what an operator drained, or a host that was set aside, stays drained. A fleet that
 * does not answer is told again soon, whatever the period of the check.
 */

import type { Clock } from "../ports/clock.ts";
import { instantText } from "./black-hole.ts";

export interface HealthCheck {
  /** argv, never a shell line. */
  readonly command: readonly string[];
  readonly everyMs: number;
  /** A check that takes longer is killed, and has failed. */
  readonly timeoutMs: number;
}

/** What is run again and again. */
export interface RepeatedCheck {
  /** How each of its reasons begins: no two checks of an agent begin alike. */
  readonly prefix: string;
  /** What fails, for people; nothing where its results say so. */
  readonly name?: string;
  readonly everyMs: number;
}

export type CheckResult =
  | { readonly kind: "passed" }
  /** `scope`: what is to be out of service, where that may change while the check goes on failing. */
  | { readonly kind: "failed"; readonly why: string; readonly scope?: string };

export interface HealthCheckPorts {
  readonly clock: Clock;
  readonly closing: AbortSignal;
  readonly onNote: (note: string) => void;
  runCheck(closing: AbortSignal): Promise<CheckResult>;
  /** Drains those of the agent's hosts that are not drained yet; fails where the fleet does not answer. */
  drain(reason: string): Promise<void>;
  /** Ends the drains of the agent's hosts whose reasons begin so. */
  undrain(prefix: string): Promise<void>;
  /** Takes a way to have a round at once, after the one that is under way; its end is that of the round. */
  readonly onRound?: (again: () => Promise<unknown>) => void;
  /** How many drains of the agent's, of any kind, have ended: a host that had one of another kind lacks this check's. */
  ended(): number;
}

/** Of an operator's program. */
export const CHECK_FAILED = "health check failing";
/** Of the check of GPUs. */
export const GPU_FAULT = "GPU fault";
/** How the reason of each drain of a check begins; that of a person, who may name the same fault, does not. */
export const beginningOf = (prefix: string): string => `${prefix} since `;
/** An agent that waits longer is silent, and what it should adopt is ended as of a lost host. */
const FIRST_CHECK_MS = 20_000;
/** The first time; twice as long each time, up to the time between two checks: a fleet that refuses an agent's orders goes on refusing. */
const TELL_AGAIN_MS = 5_000;
const MOST_DOUBLINGS = 20;
/** While a check goes on failing, the fleet is looked at this often: somebody may have undrained a host. Each look reads the whole ledger. */
const LOOK_AGAIN_MS = 300_000;

/** Returns when the first check has ended and been told of, at the latest after `FIRST_CHECK_MS`; the later ones run until the agent ends. */
export async function keepChecking(check: RepeatedCheck, ports: HealthCheckPorts): Promise<void> {
  const { clock, closing } = ports;
  const { prefix, name, everyMs } = check;
  let reason: string | undefined;
  let scope: string | undefined;
  /** A former agent of these hosts may have drained them. */
  let mayBeDrained = true;
  let toldAtMs: number | undefined;
  let ended = 0;
  const round = async (): Promise<boolean> => {
    const result = await ports.runCheck(closing);
    if (closing.aborted) return true;
    if (result.kind === "failed") {
      const what = name === undefined ? result.why : `${name} ${result.why}`;
      if (reason === undefined || scope !== result.scope) {
        toldAtMs = undefined;
        scope = result.scope;
        reason = `${beginningOf(prefix)}${instantText(clock.nowMs())}: ${what}`;
        ports.onNote(reason);
      }
      mayBeDrained = true;
      const told = reason;
      const nowMs = clock.elapsedMs();
      const isRecent = toldAtMs !== undefined && nowMs - toldAtMs < LOOK_AGAIN_MS;
      if (isRecent && ended === ports.ended()) return true;
      ended = ports.ended();
      const isHeard = await isTold(() => ports.drain(told));
      toldAtMs = isHeard ? nowMs : undefined;
      return isHeard;
    }
    toldAtMs = undefined;
    if (reason !== undefined) ports.onNote(`passes again, after ${reason}`);
    reason = undefined;
    if (!mayBeDrained) return true;
    mayBeDrained = !(await isTold(() => ports.undrain(beginningOf(prefix))));
    return !mayBeDrained;
  };
  const isTold = async (tell: () => Promise<unknown>): Promise<boolean> => {
    try {
      await tell();
      return true;
    } catch (error) {
      ports.onNote(`the fleet could not be told of the health check: ${String(error)}`);
      return false;
    }
  };
  let last: Promise<boolean> = Promise.resolve(true);
  const next = (): Promise<boolean> => (last = last.then(round));
  const first = next();
  ports.onRound?.(next);
  void (async () => {
    let unheard = 0;
    for (let isHeard = await first; !closing.aborted; isHeard = await next()) {
      unheard = isHeard ? 0 : unheard + 1;
      const tellAgainMs = TELL_AGAIN_MS * 2 ** Math.min(unheard - 1, MOST_DOUBLINGS);
      await clock.pause(isHeard ? everyMs : Math.min(everyMs, tellAgainMs), closing);
    }
  })();
  await Promise.race([first, clock.pause(FIRST_CHECK_MS, closing)]);
}
