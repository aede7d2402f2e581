/**
 * @file A call that waits while the server has too much to do, instead of failing: back-pressure is a wait, never an error.
 *
 * Below it the connection repeats a refused call ten times by itself; what is still refused then is repeated here, each time after twice as long up to
 * `MOST_WAIT_MS`, and by chance up to half as much more, so that many clients do not come again together.
 */

import { isGrpcServiceError } from "@temporalio/client";
import { setTimeout as sleep } from "node:timers/promises";

const FIRST_WAIT_MS = 500;
const MOST_WAIT_MS = 10_000;
/** The server gave up within its own time; so does a call of a caller whose own time is over, so this has an end. */
const MOST_OVERDUE = 5;

/** Numbers of gRPC's status codes. */
const DEADLINE_EXCEEDED = 4;
const RESOURCE_EXHAUSTED = 8;

export async function patiently<Given>(
  call: () => Promise<Given>,
  wait: (ms: number) => Promise<unknown> = sleep,
): Promise<Given> {
  let overdue = 0;
  for (let waitMs = FIRST_WAIT_MS; ; waitMs = Math.min(2 * waitMs, MOST_WAIT_MS)) {
    try {
      return await call();
    } catch (error) {
      const pressure = pressureOf(error);
      if (pressure === "overdue") overdue += 1;
      if (pressure === undefined || overdue > MOST_OVERDUE) throw error;
      await wait(waitMs * (1 + Math.random() / 2));
    }
  }
}

function pressureOf(error: unknown): "refused" | "overdue" | undefined {
  for (let at = error; at instanceof Error; at = at.cause) {
    if (!isGrpcServiceError(at)) continue;
    // A message that is too large stays so.
    if (at.code === RESOURCE_EXHAUSTED)
      return /larger than max/i.test(at.details) ? undefined : "refused";
    return at.code === DEADLINE_EXCEEDED ? "overdue" : undefined;
  }
  return undefined;
}
