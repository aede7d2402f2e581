/**
 * @file Delivers the notices of the outbox: to each target one after the other, the oldest first, all targets side by side. A notice may arrive
 * twice, when the console dies between sending and noting; its id tells.
 *
 * What fails is tried again, ever later, for a day. A target that fails holds up no other.
 */

import type { NoticeTarget } from "../../domain/fleet/notify-schema.ts";
import type { HistoryDatabase } from "../history/database.ts";
import { OLDEST_MS } from "./outbox.ts";
import type { SendNotice } from "./send.ts";

const AT_ONCE = 20;
const FIRST_AGAIN_MS = 5_000;
const LATEST_AGAIN_MS = 3_600_000;
const MOST_DOUBLINGS = 10;

/** One round: whatever is due. */
export async function deliver(
  database: Pick<HistoryDatabase, "dueNotices" | "noteSent">,
  {
    targets,
    send,
    nowMs,
    signal,
    say,
  }: {
    readonly targets: readonly NoticeTarget[];
    readonly send: SendNotice;
    readonly nowMs: () => number;
    readonly signal: AbortSignal;
    readonly say: (line: string) => void;
  },
): Promise<void> {
  await Promise.all(
    targets.map(async (target) => {
      for (const row of database.dueNotices(target.name, { nowMs: nowMs(), most: AT_ONCE })) {
        if (signal.aborted) return;
        const { id, tries, atMs } = row;
        try {
          await send(target, row, nowMs());
          database.noteSent({ id, target: target.name, tries: tries + 1, doneMs: nowMs() });
        } catch (error) {
          // The console ends; the next one sends it.
          if (signal.aborted) return;
          const why = error instanceof Error ? error.message : String(error);
          const isLate = nowMs() - atMs > OLDEST_MS;
          const waitMs = Math.min(
            LATEST_AGAIN_MS,
            FIRST_AGAIN_MS * 2 ** Math.min(tries, MOST_DOUBLINGS),
          );
          if (tries === 0 || isLate)
            say(
              `console: ${target.name} was not told of ${id}: ${why}; ${isLate ? "it is given up" : "it is tried again"}`,
            );
          database.noteSent({
            ...{ id, target: target.name, tries: tries + 1 },
            ...(isLate ? { doneMs: nowMs() } : { notBeforeMs: nowMs() + waitMs }),
          });
          // The next one waits for the next round: what is the target's trouble would be met again.
          return;
        }
      }
    }),
  );
}
