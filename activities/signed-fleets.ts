/**
 * @file Whether a fleet asks for proof of who speaks, as the memo of its workflow says; jobs that begin under such a fleet ask for it, too, and so do
 * its presences, lobbies and learners.
 *
 * A fleet that has begun to ask never ceases. Cost: a call of a millisecond for the first job of each fleet; while a fleet does not ask for all proofs, one every
 * few seconds.
 */

import { WorkflowNotFoundError, type Client } from "@temporalio/client";
import { OrbweaverError } from "../domain/values/failure.ts";
import { isUnreadable } from "../protocol/unreadable.ts";
import { ATTENDANTS_MEMO, ORDERS_MEMO, SIGNED_WORDS, WORDS_MEMO } from "../protocol/messages.ts";

const LOOK_AGAIN_MS = 5_000;

/** What a fleet asks proof of: of nothing, of signals, of orders, too, or also of what its presences, lobbies and learners are told. */
export type Asked = "nothing" | "signals" | "orders" | "all";

/** Of a fleet by its workflow's id; one that is not there does not ask. */
export type AskedBy = (fleetWorkflowId: string) => Promise<Asked>;

export function signedFleets(client: Client, nowMs: () => number = Date.now): AskedBy {
  const known = new Map<string, { readonly asked: Asked; readonly atMs: number }>();
  return async (fleetWorkflowId) => {
    const last = known.get(fleetWorkflowId);
    if (last !== undefined && (last.asked === "all" || nowMs() - last.atMs < LOOK_AGAIN_MS))
      return last.asked;
    const asked = await askedNow(client, fleetWorkflowId);
    known.set(fleetWorkflowId, { asked, atMs: nowMs() });
    return asked;
  };
}

/** At this moment; `ofNone`: of a fleet that is not there. */
export async function askedNow(
  client: Client,
  fleetWorkflowId: string,
  ofNone: Asked = "nothing",
): Promise<Asked> {
  try {
    const { memo = {} } = await client.workflow.getHandle(fleetWorkflowId).describe();
    if ([WORDS_MEMO, ORDERS_MEMO, ATTENDANTS_MEMO].some((name) => isUnreadable(memo[name])))
      throw new OrbweaverError(
        "PAYLOAD_UNREADABLE",
        `whether ${fleetWorkflowId} asks for proof cannot be read: its memo is encrypted with keys that are not here. Give this worker the fleet's (ORBWEAVER_ENCRYPTION_KEYS).`,
      );
    if (memo[WORDS_MEMO] !== SIGNED_WORDS) return "nothing";
    if (memo[ATTENDANTS_MEMO] === SIGNED_WORDS) return "all";
    return memo[ORDERS_MEMO] === SIGNED_WORDS ? "orders" : "signals";
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return ofNone;
    throw error;
  }
}
