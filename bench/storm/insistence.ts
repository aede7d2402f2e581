/** @file Calls to a server that the storm itself takes away: asked again until it answers, within a bound. */

import { isGrpcServiceError, WorkflowNotFoundError, type Client } from "@temporalio/client";
import { setTimeout as sleep } from "node:timers/promises";
import { OrbweaverError } from "../../domain/values/failure.ts";

const PAUSE_MS = 250;
const WITHIN_MS = 120_000;
const ANSWER_WITHIN_MS = 10_000;
const NOT_FOUND = 5;
/** CANCELLED, UNKNOWN, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, FAILED_PRECONDITION (no poller), INTERNAL, UNAVAILABLE. */
const PASSING = new Set([1, 2, 4, 8, 9, 13, 14]);

/** The answer; undefined when the server says that there is nothing of that name, or that it has ended. */
export async function insist<T>(
  client: Client,
  call: () => Promise<T>,
  withinMs = WITHIN_MS,
): Promise<T | undefined> {
  for (const untilMs = performance.now() + withinMs; ;) {
    try {
      return await client.withDeadline(Date.now() + ANSWER_WITHIN_MS, call);
    } catch (error) {
      const verdict = verdictOf(error);
      if (verdict === "gone") return undefined;
      if (verdict === "final" || performance.now() > untilMs) throw error;
    }
    await sleep(PAUSE_MS);
  }
}

function verdictOf(error: unknown): "gone" | "passing" | "final" {
  if (error instanceof WorkflowNotFoundError) return "gone";
  if (error instanceof OrbweaverError) {
    if (error.code === "NOT_FOUND" || error.code === "NOT_ALLOWED") return "gone";
    return error.code === "NO_CONNECTION" ? "passing" : "final";
  }
  for (let at = error; at instanceof Error; at = at.cause) {
    if (!isGrpcServiceError(at)) continue;
    if (Number(at.code) === NOT_FOUND) return "gone";
    return PASSING.has(Number(at.code)) ? "passing" : "final";
  }
  return "final";
}
