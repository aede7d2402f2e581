/**
 * @file Whether a fleet asks for proof of who speaks, as the memo of its workflow says; jobs that begin under such a fleet ask for it, too.
 *
 * A fleet that has begun to ask never ceases. Cost: a call of a millisecond for the first job of each fleet; while a fleet does not ask, one every
 * few seconds.
 */

import { WorkflowNotFoundError, type Client } from "@temporalio/client";
import { SIGNED_WORDS, WORDS_MEMO } from "../protocol/messages.ts";

const LOOK_AGAIN_MS = 5_000;

/** Of a fleet by its workflow's id; one that is not there does not ask. */
export type AreWordsSigned = (fleetWorkflowId: string) => Promise<boolean>;

export function signedFleets(client: Client, nowMs: () => number = Date.now): AreWordsSigned {
  const known = new Map<string, { readonly isSigned: boolean; readonly atMs: number }>();
  return async (fleetWorkflowId) => {
    const last = known.get(fleetWorkflowId);
    if (last !== undefined && (last.isSigned || nowMs() - last.atMs < LOOK_AGAIN_MS))
      return last.isSigned;
    const isSigned = await asks(client, fleetWorkflowId);
    known.set(fleetWorkflowId, { isSigned, atMs: nowMs() });
    return isSigned;
  };
}

async function asks(client: Client, fleetWorkflowId: string): Promise<boolean> {
  try {
    const { memo = {} } = await client.workflow.getHandle(fleetWorkflowId).describe();
    return memo[WORDS_MEMO] === SIGNED_WORDS;
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return false;
    throw error;
  }
}
