/**
 * @file Encrypts every payload with AES-256-GCM, and decrypts payloads under any key of the ring.
 *
 * The format is that of Temporal's samples: `binary/encrypted` with the key's id in the metadata; the data is nonce,
 * ciphertext, tag. Nonces are random, so a key should be replaced after some thousand million payloads. A payload under an
 * unknown key is an error everywhere, also for workflows: the key may arrive later, so the task must wait for it instead of
 * continuing with junk.
 */

import type { Payload, PayloadCodec } from "@temporalio/common";
import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";
import { OrbweaverError } from "../../domain/values/failure.ts";
import type { EncryptionKey, KeyRing } from "./key-ring.ts";
import {
  bytesOf,
  ENCODING_KEY,
  metadataBytes,
  metadataText,
  payloadOf,
  type OnDamage,
} from "./payload-bytes.ts";

const ENCRYPTED_ENCODING = "binary/encrypted";
const KEY_ID_KEY = "encryption-key-id";
const CIPHER = "aes-256-gcm";
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** Without a ring nothing is encrypted; payloads that others have encrypted are reported instead of passed on as junk. */
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
  // Another codec's encryption; passed on unchanged.
  if (id === undefined) return payload;
  const key = ring?.find(id);
  if (key === undefined) throw keyMissing(id, ring);
  const data = payload.data ?? new Uint8Array();
  try {
    const decipher = createDecipheriv(CIPHER, key.secret, data.subarray(0, NONCE_BYTES), {
      // Without this check a shorter tag, which is easier to forge, would pass.
      authTagLength: TAG_BYTES,
    });
    decipher.setAuthTag(data.subarray(data.length - TAG_BYTES));
    const text = data.subarray(NONCE_BYTES, data.length - TAG_BYTES);
    return payloadOf(Buffer.concat([decipher.update(text), decipher.final()]));
  } catch (error) {
    if (onDamage === "pass") return payload;
    throw new OrbweaverError(
      "PAYLOAD_UNREADABLE",
      `a payload under key ${id} is damaged or forged: its authentication fails. Find its writer in Temporal's UI.`,
      { cause: error },
    );
  }
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
