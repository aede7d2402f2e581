/** @file Calls to a server that the storm itself takes away: asked again until it answers, within a bound. */

import { isGrpcServiceError, WorkflowNotFoundError } from "@temporalio/client";
import { setTimeout as sleep } from "node:timers/promises";

const PAUSE_MS = 250;
const WITHIN_MS = 120_000;
/** DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, INTERNAL, UNAVAILABLE, CANCELLED, UNKNOWN. */
const PASSING = new Set([1, 2, 4, 8, 13, 14]);

/** The answer; undefined when the server says that there is nothing of that name, or that it has ended. */
export async function insist<T>(
  call: () => Promise<T>,
  withinMs = WITHIN_MS,
): Promise<T | undefined> {
  for (const untilMs = performance.now() + withinMs; ;) {
    try {
      return await call();
    } catch (error) {
      if (isGone(error)) return undefined;
      if (!isPassing(error) || performance.now() > untilMs) throw error;
    }
    await sleep(PAUSE_MS);
  }
}

const NOT_FOUND = 5;

function isGone(error: unknown): boolean {
  return error instanceof WorkflowNotFoundError || codeOf(error) === NOT_FOUND;
}

function isPassing(error: unknown): boolean {
  const code = codeOf(error);
  if (code !== undefined) return PASSING.has(code);
  // Queries and updates fail in words of their own while no worker answers.
  return (
    error instanceof Error &&
    /NO_CONNECTION|did not answer|nothing answers|timed out|aborted|no worker/i.test(
      `${error.name} ${error.message}`,
    )
  );
}

function codeOf(error: unknown): number | undefined {
  for (let at = error; at instanceof Error; at = at.cause) {
    if (isGrpcServiceError(at)) return Number(at.code);
  }
  return undefined;
}
