/**
 * @file Encrypts every payload with AES-256-GCM, and decrypts what a key of the ring has encrypted.
 *
 * The form is that of Temporal's samples: `binary/encrypted`, the key's id in the metadata, the data is nonce, ciphertext, tag.
 * Nonces are random: after some thousand million payloads a key should be replaced. A payload under a key that is not in
 * the ring is an error everywhere, also for workflows: the key may come, so the task must wait for it and not go on with junk.
 */

import type { Payload, PayloadCodec } from "@temporalio/common";
import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";
import { OrbweaverError } from "../../domain/failure.ts";
import type { EncryptionKey, KeyRing } from "./key-ring.ts";
import {
  bytesOf,
  ENCODING_KEY,
  metadataBytes,
  metadataText,
  payloadOf,
  type OnDamage,
} from "./payload-bytes.ts";

export const ENCRYPTED_ENCODING = "binary/encrypted";
export const KEY_ID_KEY = "encryption-key-id";
const CIPHER = "aes-256-gcm";
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** Without a ring nothing is encrypted, and what others have encrypted is named as such instead of being passed on as junk. */
export function encryptionCodec(ring: KeyRing | undefined, onDamage: OnDamage): PayloadCodec {
  return {
    encode: (payloads) =>
      Promise.resolve(
        ring === undefined
          ? payloads
          : payloads.map((payload) => encrypted(payload, ring.current())),
      ),
    // A promise of its own, so that a failure is a rejection.
    decode: async (payloads) =>
      await Promise.resolve(payloads.map((payload) => decrypted(payload, ring, onDamage))),
  };
}

function encrypted(payload: Payload, { id, secret }: EncryptionKey): Payload {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(CIPHER, secret, nonce);
  const text = [cipher.update(bytesOf(payload)), cipher.final()];
  return {
    metadata: {
      [ENCODING_KEY]: metadataBytes(ENCRYPTED_ENCODING),
      [KEY_ID_KEY]: metadataBytes(id),
    },
    data: Buffer.concat([nonce, ...text, cipher.getAuthTag()]),
  };
}

function decrypted(payload: Payload, ring: KeyRing | undefined, onDamage: OnDamage): Payload {
  if (metadataText(payload, ENCODING_KEY) !== ENCRYPTED_ENCODING) return payload;
  const id = metadataText(payload, KEY_ID_KEY);
  // Somebody else's encryption: not ours to judge.
  if (id === undefined) return payload;
  const key = ring?.find(id);
  if (key === undefined) throw keyMissing(id, ring);
  const data = payload.data ?? new Uint8Array();
  try {
    const decipher = createDecipheriv(CIPHER, key.secret, data.subarray(0, NONCE_BYTES), {
      // Else a shorter tag, easier to forge, would do.
      authTagLength: TAG_BYTES,
    });
    decipher.setAuthTag(data.subarray(data.length - TAG_BYTES));
    const text = data.subarray(NONCE_BYTES, data.length - TAG_BYTES);
    return payloadOf(Buffer.concat([decipher.update(text), decipher.final()]));
  } catch (error) {
    if (onDamage === "pass") return payload;
    throw new OrbweaverError(
      "PAYLOAD_UNREADABLE",
      `a payload that says it was encrypted with key ${id} is damaged or forged: it does not pass its own check. Look in Temporal's UI who wrote it.`,
      { cause: error },
    );
  }
}

function keyMissing(id: string, ring: KeyRing | undefined): OrbweaverError {
  return new OrbweaverError(
    "ENCRYPTION_KEY_MISSING",
    ring === undefined
      ? `a payload is encrypted with key ${id}, and no keys are configured here. Name the fleet's key file with ORBWEAVER_ENCRYPTION_KEYS or --encryption-keys.`
      : `a payload is encrypted with key ${id}, which ${ring.file} does not have (it has ${ring.ids().join(", ")}). Add that key's line to the file, or name the fleet's key file with ORBWEAVER_ENCRYPTION_KEYS.`,
    { details: { keyId: id } },
  );
}
