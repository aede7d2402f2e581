/**
 * @file The proof that goes with a word to a workflow: who says it, in which role, signed over this very value.
 *
 * Workers and agents sign with the key of their role (`workers/word-signer.ts`), people with their identity. Cost: 0.1 ms and the hash of the value.
 */

import { defaultPayloadConverter } from "@temporalio/common";
import { digestOf, newNonce, signedBy, type SigningPair } from "../access/word-signature.ts";
import { formatProof, signedWords, type Speaker } from "../protocol/word-proof.ts";

export interface WordToSign {
  readonly workflowId: string;
  /** The name of the signal or update. */
  readonly signal: string;
  readonly value: unknown;
}

export function signedWord(
  { workflowId, signal, value }: WordToSign,
  { role, pair }: { readonly role: Speaker; readonly pair: SigningPair },
  nowMs: number,
): string {
  const data = value === undefined ? undefined : defaultPayloadConverter.toPayload(value)?.data;
  const digest = digestOf(data ?? new Uint8Array());
  const claim = { role, key: pair.publicKey, atMs: nowMs, nonce: newNonce() };
  const signature = signedBy(pair, signedWords(claim, { workflowId, signal, digest }));
  return formatProof({ ...claim, signature });
}
