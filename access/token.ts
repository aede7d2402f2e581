/**
 * @file Whose a bearer token is: a JSON Web Token, signed by an issuer that the fleet file names, for this audience, at this time (RFC 7519).
 *
 * EdDSA (Ed25519), RS256 and ES256, each with a key of its own kind, so that no token chooses how it is checked; `none` and shared secrets are not
 * among them. Keys come from the file, or from the issuer's key set, which is fetched again when a token names a key that is not in it.
 */

import { createPublicKey, verify, type JsonWebKey, type KeyObject } from "node:crypto";
import { z } from "zod";
import type { Issuer, PrincipalEntry } from "../domain/fleet/access-schema.ts";
import { OrbweaverError } from "../domain/values/failure.ts";
import { parsePublicKey } from "./own-identity.ts";
import { parsedJson } from "../lib/parsed-json.ts";

export type TokenCheck =
  | {
      readonly kind: "known";
      readonly name: string;
      readonly issuer: string;
      readonly groups: readonly string[];
    }
  | { readonly kind: "refused"; readonly reason: string };

export interface IssuerKey {
  /** The `kid` by which tokens name it; absent: it may be any token's. */
  readonly id?: string;
  readonly key: KeyObject;
}

/** The issuer's public keys; `id` is the one that is wanted. Throws where they cannot be had. */
export type KeysOf = (issuer: Issuer, id: string | undefined) => Promise<readonly IssuerKey[]>;

export interface TokenRule {
  readonly issuers: readonly Issuer[];
  readonly principals: readonly PrincipalEntry[];
  readonly keysOf: KeysOf;
  readonly nowMs: number;
}

const MAX_TOKEN_CHARS = 16_384;
/** By so much the clocks of issuer and service may differ. */
const LEEWAY_S = 60;
/** Memos of jobs and the search attribute have room for no longer name. */
const MAX_NAME_CHARS = 64;

const headerSchema = z.object({
  alg: z.enum(["EdDSA", "RS256", "ES256"]),
  kid: z.string().max(200).exactOptional(),
  /** Extensions that must be understood: none is. */
  crit: z.undefined().optional(),
});
const claimsSchema = z.looseObject({
  iss: z.string(),
  sub: z.string().min(1).max(255),
  aud: z.union([z.string(), z.array(z.string())]),
  exp: z.number(),
  nbf: z.number().exactOptional(),
});

export async function checkToken(token: string, rule: TokenRule): Promise<TokenCheck> {
  const refused = (reason: string): TokenCheck => ({ kind: "refused", reason });
  const parts = token.split(".");
  const [head = "", body = "", signature = ""] = parts;
  if (token.length > MAX_TOKEN_CHARS || parts.length !== 3)
    return refused("it is no JSON Web Token");
  const header = headerSchema.safeParse(jsonOf(head)).data;
  if (header === undefined)
    return refused("its header is none of a token signed with EdDSA, RS256 or ES256");
  const claims = claimsSchema.safeParse(jsonOf(body)).data;
  if (claims === undefined) return refused("its claims lack iss, sub, aud or exp");
  const issuer = rule.issuers.find((each) => each.issuer === claims.iss);
  if (issuer === undefined) return refused("nobody here believes its issuer");
  const keys = await rule.keysOf(issuer, header.kid);
  const isSigned = keys.some(
    ({ id, key }) =>
      (id === undefined || header.kid === undefined || id === header.kid) &&
      isSignedBy(key, { alg: header.alg, text: `${head}.${body}`, signature }),
  );
  if (!isSigned) return refused(`no key of ${issuer.name} has signed it`);
  if (![claims.aud].flat().includes(issuer.audience))
    return refused(`it is for another audience than ${issuer.audience}`);
  const nowS = rule.nowMs / 1_000;
  if (claims.exp + LEEWAY_S <= nowS) return refused("it has expired");
  if (claims.nbf !== undefined && claims.nbf - LEEWAY_S > nowS)
    return refused("its time has not come yet");
  const name = nameOf(claims.sub, issuer, rule.principals);
  if (name === undefined)
    return refused(
      `its subject is too long for a name, or no plain one. Name it under access.principals`,
    );
  const groups = issuer.groups === undefined ? [] : namesIn(claims[issuer.groups]);
  return { kind: "known", name, issuer: issuer.name, groups };
}

function nameOf(
  subject: string,
  issuer: Issuer,
  principals: readonly PrincipalEntry[],
): string | undefined {
  const known = principals.find((each) => each.subject === subject && each.issuer === issuer.name);
  if (known !== undefined) return known.name;
  const name = `${issuer.name}:${subject}`;
  return name.length <= MAX_NAME_CHARS && /^[\x21-\x7e]+$/.test(name) ? name : undefined;
}

const namesIn = (claim: unknown): readonly string[] =>
  [claim].flat().filter((each) => typeof each === "string");

interface Signed {
  readonly alg: z.output<typeof headerSchema>["alg"];
  readonly text: string;
  readonly signature: string;
}

function isSignedBy(key: KeyObject, { alg, text, signature }: Signed): boolean {
  const data = Buffer.from(text);
  const said = Buffer.from(signature, "base64url");
  const kind = key.asymmetricKeyType;
  switch (alg) {
    case "EdDSA":
      return kind === "ed25519" && verify(null, data, key, said);
    case "RS256":
      return kind === "rsa" && verify("sha256", data, key, said);
    case "ES256":
      return (
        kind === "ec" &&
        key.asymmetricKeyDetails?.namedCurve === "prime256v1" &&
        verify("sha256", data, { key, dsaEncoding: "ieee-p1363" }, said)
      );
  }
}

const jsonOf = (text: string): unknown => parsedJson(Buffer.from(text, "base64url").toString());

/** Throws BAD_INPUT for a key of the fleet file that is none. */
export function keysInFile({ name, keys = [] }: Issuer): readonly IssuerKey[] {
  return keys.map((text) => {
    const key = text.startsWith("ed25519:") ? parsePublicKey(text) : pemKey(text);
    if (key !== undefined) return { key };
    throw new OrbweaverError(
      "BAD_INPUT",
      `a key of issuer ${name} (access.issuers) cannot be read as one of Ed25519, RSA or P-256`,
    );
  });
}

function pemKey(text: string): KeyObject | undefined {
  try {
    return createPublicKey(text);
  } catch {
    return undefined;
  }
}

/** Keys of the file where it has them, else those of the issuer's key set, kept for a while. */
export function issuerKeys({
  fetch: get = fetch,
  nowMs = Date.now,
}: { readonly fetch?: typeof fetch; readonly nowMs?: () => number } = {}): KeysOf {
  const sets = new Map<string, KeySet>();
  return async (issuer, id) => {
    const { jwks } = issuer;
    if (jwks === undefined) return keysInFile(issuer);
    const now = nowMs();
    const set: KeySet = sets.get(jwks) ?? { askedMs: -Infinity, answer: Promise.resolve([]) };
    sets.set(jwks, set);
    const isYoung = (ageMs: number): boolean =>
      set.good !== undefined && now - set.good.atMs < ageMs;
    const isThere = set.good?.keys.some((key) => id === undefined || key.id === id) === true;
    if (set.good !== undefined && isThere && isYoung(KEPT_MS)) return set.good.keys;
    // A token that names a key that does not exist may not have us ask the issuer each time; nor may an issuer that does not answer.
    if (now - set.askedMs >= ASK_AGAIN_MS) {
      set.askedMs = now;
      set.answer = keySet(get, jwks, issuer.name).then((keys) => {
        set.good = { atMs: now, keys };
        return keys;
      });
    }
    try {
      return await set.answer;
    } catch (error) {
      if (set.good !== undefined && isYoung(GOOD_UNASKED_MS)) return set.good.keys;
      throw error;
    }
  };
}

interface KeySet {
  /** The last time that the issuer was asked; milliseconds since 1970. */
  askedMs: number;
  /** To that question, shared by all who wait for it. */
  answer: Promise<readonly IssuerKey[]>;
  /** What it answered with last. */
  good?: { readonly atMs: number; readonly keys: readonly IssuerKey[] };
}

const KEPT_MS = 600_000;
const ASK_AGAIN_MS = 30_000;
/** So long keys stay good while their issuer does not answer. */
const GOOD_UNASKED_MS = 3_600_000;
const FETCH_WITHIN_MS = 5_000;
const MAX_SET_CHARS = 262_144;

const setSchema = z.object({
  keys: z.array(z.looseObject({ kty: z.string(), kid: z.string().exactOptional() })),
});

async function keySet(get: typeof fetch, url: string, name: string): Promise<readonly IssuerKey[]> {
  const unusable = (why: string): OrbweaverError =>
    new OrbweaverError(
      "NO_CONNECTION",
      `the keys of issuer ${name} cannot be had from ${url}: ${why}`,
    );
  let text: string;
  try {
    const answer = await get(url, {
      redirect: "error",
      signal: AbortSignal.timeout(FETCH_WITHIN_MS),
    });
    if (!answer.ok) throw new Error(`status ${String(answer.status)}`);
    text = await answer.text();
  } catch (error) {
    throw unusable(error instanceof Error ? error.message : String(error));
  }
  if (text.length > MAX_SET_CHARS) throw unusable("it is too long");
  const set = setSchema.safeParse(parsedJson(text)).data;
  if (set === undefined) throw unusable("it is no JSON Web Key Set");
  return set.keys.flatMap((jwk) => {
    const key = jwkKey(jwk as JsonWebKey); // what is none is refused by the reader
    return key === undefined ? [] : [{ key, ...(jwk.kid !== undefined && { id: jwk.kid }) }];
  });
}

/** Undefined for kinds of keys that tokens here are not signed with. */
function jwkKey(jwk: JsonWebKey): KeyObject | undefined {
  try {
    return createPublicKey({ key: jwk, format: "jwk" });
  } catch {
    return undefined;
  }
}
