/** @file A job's view once its file has been read: before, nobody knows whether it is an array. */

import { setTimeout as sleep } from "node:timers/promises";
import type { JobView } from "../protocol/messages.ts";
import { pauseMs } from "./ask-again.ts";

/** A job that was just submitted is read within a second, or as soon as a worker has started. */
const READ_WITHIN_MS = 5_000;

/** The last view after `READ_WITHIN_MS`, whatever it says. */
export async function readView(view: () => Promise<JobView>): Promise<JobView> {
  const untilMs = Date.now() + READ_WITHIN_MS;
  for (let tries = 0; ; tries += 1) {
    const now = await view();
    const isUnread = now.spec === undefined && now.state === "pending";
    // An array that waits for no others is one as soon as it is read.
    const isBecoming =
      now.spec?.array !== undefined && now.spec.after === undefined && now.state === "pending";
    const isOnItsWay = now.array === undefined && (isUnread || isBecoming);
    if (!isOnItsWay || Date.now() >= untilMs) return now;
    await sleep(pauseMs(tries));
  }
}
