/**
 * @file The data converters of one setting: one for clients, and one for workers, which also encode failures.
 *
 * Order of encoding: compression, encryption, then the codecs of the user's module, which therefore see only finished payloads
 * and have the last word. Decoding is in reverse and independent of the setting, because a compressed or encrypted payload is
 * marked as such.
 */

import type { DataConverter, PayloadCodec } from "@temporalio/common";
import { fileURLToPath } from "node:url";
import { compressionCodec } from "./compression.ts";
import { encryptionCodec } from "./encryption.ts";
import type { KeysInUse } from "../../protocol/seal.ts";
import { openKeyRing, type KeyRing } from "./key-ring.ts";
import type { OnDamage } from "./payload-bytes.ts";
import { answersCodec } from "./sealed-answers.ts";

export interface CodecSetting {
  /** File of the encryption keys; without one nothing is encrypted. */
  readonly keyFile?: string;
  /** The user's own, outermost. */
  readonly userCodecs?: readonly PayloadCodec[];
}

export interface Converters {
  readonly client: DataConverter;
  readonly worker: DataConverter;
  readonly isEncrypted: boolean;
  /** The keys, where there are any. */
  readonly keys?: KeysInUse;
}

export function createConverters({ keyFile, userCodecs = [] }: CodecSetting = {}): Converters {
  const ring = keyFile === undefined ? undefined : openKeyRing(keyFile);
  const answers = ring === undefined ? [] : [answersCodec];
  return {
    client: { payloadCodecs: [...ownCodecs(ring, "fail"), ...answers, ...userCodecs] },
    worker: {
      payloadCodecs: [...ownCodecs(ring, "pass"), ...userCodecs],
      ...(ring !== undefined && { failureConverterPath: ENCODED_FAILURES }),
    },
    isEncrypted: ring !== undefined,
    ...(ring !== undefined && { keys: ring }),
  };
}

/** Orbweaver's own codecs, for `payloadCodecs` of a Temporal client. */
export const ownCodecs = (ring: KeyRing | undefined, onDamage: OnDamage): PayloadCodec[] => [
  compressionCodec(onDamage),
  encryptionCodec(ring, onDamage),
];

/** Compiled, because the SDK loads it by `require`. */
const ENCODED_FAILURES = fileURLToPath(new URL("./encoded-failures.cjs", import.meta.url));
