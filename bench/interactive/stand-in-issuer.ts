/** @file An issuer of tokens that a fleet file believes: its line under `issuers:`, and tokens that it signs, or that somebody else has. */

import { generateKeyPairSync, sign, type KeyObject } from "node:crypto";
import { publicKeyText } from "../../access/own-identity.ts";

const ISSUER = "https://login.example";
const AUDIENCE = "orbweaver";

export interface StandInIssuer {
  /** `company` by name. */
  readonly line: string;
  /** Valid for an hour, unless its claims say otherwise. */
  readonly tokenOf: (sub: string, more?: object, key?: KeyObject) => string;
}

export function standInIssuer(): StandInIssuer {
  const { publicKey, privateKey } = generateKeyPairSync("ed25519");
  return {
    line: `- { name: company, issuer: "${ISSUER}", audience: ${AUDIENCE}, keys: ["${publicKeyText(publicKey)}"] }`,
    tokenOf(sub, more = {}, key = privateKey) {
      const exp = Math.floor(Date.now() / 1_000) + 3_600;
      const claims = { iss: ISSUER, aud: AUDIENCE, sub, exp, ...more };
      const text = `${tokenPart({ alg: "EdDSA" })}.${tokenPart(claims)}`;
      return `${text}.${sign(null, Buffer.from(text), key).toString("base64url")}`;
    },
  };
}

export const tokenPart = (value: unknown): string =>
  Buffer.from(JSON.stringify(value)).toString("base64url");
