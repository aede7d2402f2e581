/**
 * @file Encrypts every payload with AES-256-GCM, and decrypts payloads under any key of the ring.
 *
 * The format is that of Temporal's samples: `binary/encrypted` with the key's id in the metadata; the data is nonce,
 * ciphertext, tag. Nonces are random, so a key should be replaced after some thousand million payloads. A payload under an
 * unknown key is an error everywhere, also for workflows: the key may arrive later, so the task must wait for it instead of
 * continuing with junk.
 *
 * A key that binds also authenticates the id of the payload's workflow, which stands in the metadata, so that whoever has the key and is told no
 * workflow, as a codec server, still reads it. A reader who knows the workflow reads nothing that was made for another one. What has been read
 * for workers is marked with how it was encrypted (`protocol/seal.ts`); how it is read depends on the payload, its workflow and its key alone.
 */

import type { Payload, PayloadCodec, SerializationContext } from "@temporalio/common";
import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { startedBySchedule } from "../../protocol/cron.ts";
import type { EncryptionKey, KeyRing } from "./key-ring.ts";
import {
  bytesOf,
  ENCODING_KEY,
  metadataBytes,
  metadataText,
  payloadOf,
  withSeal,
  type OnDamage,
} from "./payload-bytes.ts";

const ENCRYPTED_ENCODING = "binary/encrypted";
const KEY_ID_KEY = "encryption-key-id";
const WORKFLOW_KEY = "encryption-workflow-id";
const CIPHER = "aes-256-gcm";
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** As it says itself; whether it can be decrypted is another question. */
export const isEncrypted = (payload: Payload): boolean =>
  metadataText(payload, ENCODING_KEY) === ENCRYPTED_ENCODING;

/** Without a ring nothing is encrypted; payloads that others have encrypted are reported instead of passed on as junk. */
export function encryptionCodec(ring: KeyRing | undefined, onDamage: OnDamage): PayloadCodec {
  return {
    encode(payloads, context) {
      if (ring === undefined) return Promise.resolve(payloads);
      // One look at the key file for all of them.
      const key = ring.current();
      return Promise.resolve(payloads.map((each) => encrypted(each, key, context?.workflowId)));
    },
    // A promise of its own, so that a failure is a rejection.
    decode: async (payloads, context) =>
      await Promise.resolve(
        payloads.map((payload) => decrypted(payload, ring, { onDamage, context })),
      ),
  };
}

/** What a key that binds authenticates beside the payload; of no workflow, where its writer was told none. */
const boundText = (workflowId: string | undefined): Uint8Array =>
  metadataBytes(`orbweaver-workflow\n${workflowId ?? ""}`);

function encrypted(
  payload: Payload,
  { id, secret, isBound }: EncryptionKey,
  workflowId: string | undefined,
): Payload {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(CIPHER, secret, nonce);
  if (isBound) cipher.setAAD(boundText(workflowId));
  const text = [cipher.update(bytesOf(payload)), cipher.final()];
  return {
    metadata: {
      [ENCODING_KEY]: metadataBytes(ENCRYPTED_ENCODING),
      [KEY_ID_KEY]: metadataBytes(id),
      ...(isBound && workflowId !== undefined && { [WORKFLOW_KEY]: metadataBytes(workflowId) }),
    },
    data: Buffer.concat([nonce, ...text, cipher.getAuthTag()]),
  };
}

interface Reading {
  readonly onDamage: OnDamage;
  readonly context: SerializationContext | undefined;
}

function decrypted(
  payload: Payload,
  ring: KeyRing | undefined,
  { onDamage, context }: Reading,
): Payload {
  const marked = onDamage === "pass" ? withSeal : unchanged;
  if (!isEncrypted(payload)) return marked(payload);
  const id = metadataText(payload, KEY_ID_KEY);
  // Another codec's encryption; passed on unchanged.
  if (id === undefined) return marked(payload);
  const key = ring?.find(id);
  if (key === undefined) throw keyMissing(id, ring);
  const boundTo = key.isBound ? metadataText(payload, WORKFLOW_KEY) : undefined;
  const readBy = context?.workflowId;
  try {
    if (boundTo !== undefined && readBy !== undefined && !isFor(boundTo, readBy))
      throw new Error(`it was made for workflow ${boundTo}, and ${readBy} has it`);
    const isBound = boundTo !== undefined && readBy !== undefined;
    return marked(payloadOf(textOf(payload, key, boundTo)), isBound ? "bound" : "unbound");
  } catch (error) {
    if (onDamage === "pass") return marked(payload);
    const found = error instanceof Error ? error.message : String(error);
    throw new OrbweaverError(
      "PAYLOAD_UNREADABLE",
      `a payload under key ${id} is damaged or forged: its authentication fails (${found}). Find its writer in Temporal's UI.`,
      { cause: error },
    );
  }
}

const unchanged = (payload: Payload): Payload => payload;

/** A schedule encrypts for the id that it gives its workflows, to which Temporal adds the time. */
const isFor = (boundTo: string, readBy: string): boolean =>
  readBy === boundTo || startedBySchedule(readBy) === boundTo;

/** Throws where the tag is not one of this text under this key and workflow. */
function textOf(
  payload: Payload,
  { secret, isBound }: EncryptionKey,
  boundTo: string | undefined,
): Uint8Array {
  const data = payload.data ?? new Uint8Array();
  const decipher = createDecipheriv(CIPHER, secret, data.subarray(0, NONCE_BYTES), {
    // Without this check a shorter tag, which is easier to forge, would pass.
    authTagLength: TAG_BYTES,
  });
  if (isBound) decipher.setAAD(boundText(boundTo));
  decipher.setAuthTag(data.subarray(data.length - TAG_BYTES));
  const text = data.subarray(NONCE_BYTES, data.length - TAG_BYTES);
  return Buffer.concat([decipher.update(text), decipher.final()]);
}

function keyMissing(id: string, ring: KeyRing | undefined): OrbweaverError {
  return new OrbweaverError(
    "ENCRYPTION_KEY_MISSING",
    ring === undefined
      ? `a payload is encrypted with key ${id}, but no keys are configured here. Name the fleet's key file with ORBWEAVER_ENCRYPTION_KEYS or --encryption-keys.`
      : `a payload is encrypted with key ${id}, which ${ring.file} does not have (it has ${ring.ids().join(", ")}). Add that key's line to the file, or name the fleet's key file with ORBWEAVER_ENCRYPTION_KEYS.`,
    { details: { keyId: id } },
  );
}
