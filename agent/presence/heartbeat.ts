/**
 * @file Heartbeats of one `keepContact` activity: the agent's contact with the control plane.
 *
 * A beat every third of `silenceMs`, the first at once. A beat that was answered is contact as of the moment at which it was sent, if
 * that could be written down. Any other beat is sent again after a short, growing pause.
 */

import type { PresenceBeat } from "../../domain/lease/gpu-use.ts";
import type { PresenceTerms } from "../../protocol/agent-contract.ts";
import type { Clock } from "../ports/clock.ts";
import type { HeartbeatTask } from "../ports/temporal.ts";

export interface HeartbeatPorts {
  readonly task: HeartbeatTask;
  readonly clock: Clock;
  /** A beat that was sent then was heard; false when that could not be written down. */
  readonly onHeard: (sentAtMs: number) => boolean;
  /** What the next beat tells beside. */
  readonly beat?: (() => PresenceBeat | undefined) | undefined;
  /** The agent ends. */
  readonly closing: AbortSignal;
}

export type HeartbeatEnd = "forgotten" | "cancelled" | "closing";

const BEATS_PER_SILENCE = 3;
const CALL_MS = 10_000;
const RETRY = { leastMs: 100, shareOfSilence: 1 / 10 } as const;

export async function keepHeartbeat(
  { silenceMs }: PresenceTerms,
  { task, clock, onHeard, beat, closing }: HeartbeatPorts,
): Promise<HeartbeatEnd> {
  // Whole: the server refuses a time limit with a fraction.
  const beatEveryMs = Math.floor(silenceMs / BEATS_PER_SILENCE);
  const mostRetryMs = Math.max(RETRY.leastMs, silenceMs * RETRY.shareOfSilence);
  for (let retryMs: number = RETRY.leastMs; !closing.aborted;) {
    const sentAtMs = clock.sinceBootMs();
    const answer = await task
      .heartbeat(Math.min(beatEveryMs, CALL_MS), beat?.())
      .catch(() => "unheard" as const);
    if (answer === "forgotten" || answer === "cancelled") return answer;
    if (answer === "heard" && onHeard(sentAtMs)) {
      retryMs = RETRY.leastMs;
      await clock.pause(Math.max(0, beatEveryMs - (clock.sinceBootMs() - sentAtMs)), closing);
    } else {
      await clock.pause(retryMs, closing);
      retryMs = Math.min(retryMs * 2, mostRetryMs);
    }
  }
  return "closing";
}
