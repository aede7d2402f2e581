/** @file What the server says of a workflow that has sent an order: its memo and its start. */

import type { Client } from "@temporalio/client";
import { setTimeout as sleep } from "node:timers/promises";
import { failure } from "../agent/system/failures.ts";

const LOOK_TIMEOUT_MS = 10_000;
const LOOKS = 3;
const LOOK_AGAIN_MS = 1_000;

/** Throws HOST_REFUSED when the server does not answer: the sender asks again, here or elsewhere. */
export async function memoOf(
  client: Client,
  { workflowId, runId }: { readonly workflowId: string; readonly runId: string },
): Promise<{ readonly memo: Readonly<Record<string, unknown>>; readonly startedAtMs: number }> {
  for (let look = 1; ; look += 1) {
    try {
      const { memo, startTime } = await client.withAbortSignal(
        AbortSignal.timeout(LOOK_TIMEOUT_MS),
        () => client.workflow.getHandle(workflowId, runId).describe(),
      );
      return { memo: memo ?? {}, startedAtMs: startTime.getTime() };
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      if (look === LOOKS)
        throw failure(
          "HOST_REFUSED",
          `it cannot be found out who has signed ${workflowId}: ${why}`,
        );
      await sleep(LOOK_AGAIN_MS);
    }
  }
}
