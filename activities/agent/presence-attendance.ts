/**
 * @file Heartbeats of one `attend` activity: what the agent calls its contact with the control plane.
 *
 * A beat every third of `silenceMs`, the first at once. A beat that was heard is contact as of the moment at which it was sent, if
 * that could be written down; one that was not is sent again after a short, growing pause.
 */

import type { PresenceTerms } from "../agent-contract.ts";
import { abortablePause } from "./abortable-pause.ts";
import type { Clock } from "./monotonic-clock.ts";
import type { AttendTask } from "./presence-task.ts";

export interface AttendancePorts {
  readonly task: AttendTask;
  readonly clock: Clock;
  /** A beat that was sent then was heard; false when that could not be written down. */
  readonly onHeard: (sentAtMs: number) => boolean;
  /** The agent ends. */
  readonly closing: AbortSignal;
}

export type AttendanceEnd = "forgotten" | "cancelled" | "closing";

const BEATS_PER_SILENCE = 3;
const CALL_MS = 10_000;
const RETRY = { leastMs: 100, shareOfSilence: 1 / 10 } as const;

export async function keepAttendance(
  { silenceMs }: PresenceTerms,
  { task, clock, onHeard, closing }: AttendancePorts,
): Promise<AttendanceEnd> {
  // Whole: a time limit that is not is refused.
  const beatEveryMs = Math.floor(silenceMs / BEATS_PER_SILENCE);
  const mostRetryMs = Math.max(RETRY.leastMs, silenceMs * RETRY.shareOfSilence);
  for (let retryMs: number = RETRY.leastMs; !closing.aborted;) {
    const sentAtMs = clock();
    const answer = await task
      .heartbeat(Math.min(beatEveryMs, CALL_MS))
      .catch(() => "unheard" as const);
    if (answer === "forgotten" || answer === "cancelled") return answer;
    if (answer === "heard" && onHeard(sentAtMs)) {
      retryMs = RETRY.leastMs;
      await abortablePause(Math.max(0, beatEveryMs - (clock() - sentAtMs)), closing);
    } else {
      await abortablePause(retryMs, closing);
      retryMs = Math.min(retryMs * 2, mostRetryMs);
    }
  }
  return "closing";
}
