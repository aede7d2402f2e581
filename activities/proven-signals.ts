/**
 * @file The signals of a closed run whose senders have proven who they are: whoever sends them once more signs them, so no others may pass.
 *
 * They are judged as the run itself judges what it hears: by the keys of the moment, each number once, none that was signed long before the run began.
 * Memory: the numbers of all its proven signals.
 */

import type { Client } from "@temporalio/client";
import { parseProof, staleWord, type WordActivities } from "../protocol/word-proof.ts";
import { signalsOf, type ClosedRun, type ReceivedSignal } from "./started-with.ts";

/** Those of the given names, in their order, a page of the history at a time. */
export async function* provenSignalsOf(
  client: Client,
  run: ClosedRun,
  { names, checkWords }: WordActivities & { readonly names: readonly string[] },
): AsyncIterable<readonly ReceivedSignal[]> {
  const { startTime } = await client.workflow.getHandle(run.workflowId, run.runId).describe();
  const startedAtMs = startTime.getTime();
  const seen = new Set<string>();
  for await (const page of signalsOf(client, run)) {
    const named = page.filter(({ signal }) => names.includes(signal));
    const words = named.map(({ signal, proof, bytes }) => ({
      signal,
      ...(proof !== undefined && { proof }),
      bytes: bytes.length,
    }));
    const values = Buffer.concat(named.map(({ bytes }) => bytes));
    const { refused } = await checkWords({ workflowId: run.workflowId, words }, values);
    const unproven = new Set(refused.flatMap((each) => each.words));
    yield named.filter(({ proof }, at) => {
      if (unproven.has(at) || staleWord(proof, { startedAtMs, seen }) !== undefined) return false;
      const nonce = parseProof(proof)?.nonce;
      if (nonce !== undefined) seen.add(nonce);
      return true;
    });
  }
}
