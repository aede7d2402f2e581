/** Whose a bearer token is, and which are none. */

import { createHmac, generateKeyPairSync, sign, type KeyObject } from "node:crypto";
import { describe, expect, it } from "vitest";
import { checkToken, issuerKeys, keysInFile, type TokenRule } from "../../access/token.ts";
import type { Issuer, PrincipalEntry } from "../../domain/fleet/access-schema.ts";

const NOW_MS = 1_900_000_000_000;
const NOW_S = NOW_MS / 1_000;
const pem = (key: KeyObject): string => key.export({ type: "spki", format: "pem" }).toString();
const ed = generateKeyPairSync("ed25519");
const rsa = generateKeyPairSync("rsa", { modulusLength: 2048 });
const ec = generateKeyPairSync("ec", { namedCurve: "P-256" });
const stranger = generateKeyPairSync("ed25519");

const ISSUER: Issuer = {
  name: "company",
  issuer: "https://login.example.org",
  audience: "orbweaver",
  keys: [ed, rsa, ec].map(({ publicKey }) => pem(publicKey)),
  groups: "groups",
};
const ADA: PrincipalEntry = { name: "ada", subject: "u-17", issuer: "company" };

const part = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString("base64url");
const CLAIMS = {
  iss: ISSUER.issuer,
  sub: "u-17",
  aud: "orbweaver",
  exp: NOW_S + 600,
  groups: ["vision"],
};

function token(
  claims: object = CLAIMS,
  {
    alg = "EdDSA",
    key = ed.privateKey,
    ...more
  }: { alg?: string; key?: KeyObject; kid?: string; crit?: string[] } = {},
): string {
  const text = `${part({ alg, ...more })}.${part(claims)}`;
  const data = Buffer.from(text);
  const signature =
    alg === "EdDSA"
      ? sign(null, data, key)
      : sign("sha256", data, alg === "ES256" ? { key, dsaEncoding: "ieee-p1363" } : key);
  return `${text}.${signature.toString("base64url")}`;
}

const rule = (more: Partial<TokenRule> = {}): TokenRule => ({
  issuers: [ISSUER],
  principals: [ADA],
  keysOf: issuerKeys(),
  nowMs: NOW_MS,
  ...more,
});
const KNOWN = { kind: "known", name: "ada", issuer: "company", groups: ["vision"] };

describe("a token", () => {
  it.each([
    ["EdDSA", ed],
    ["RS256", rsa],
    ["ES256", ec],
  ])("signed with %s is its subject's", async (alg, { privateKey }) => {
    expect(await checkToken(token(CLAIMS, { alg, key: privateKey }), rule())).toEqual(KNOWN);
  });

  it("of a subject without a name here is named after its issuer, which no principal can be", async () => {
    const found = await checkToken(token({ ...CLAIMS, sub: "ada" }), rule());
    expect(found).toMatchObject({ kind: "known", name: "company:ada" });
  });

  const unsigned = `${part({ alg: "none" })}.${part(CLAIMS)}.`;
  const text = `${part({ alg: "HS256" })}.${part(CLAIMS)}`;
  const shared = `${text}.${createHmac("sha256", pem(rsa.publicKey)).update(text).digest("base64url")}`;
  const swapped = ((): string => {
    const [head = "", , signature = ""] = token().split(".");
    return `${head}.${part({ ...CLAIMS, sub: "root" })}.${signature}`;
  })();
  it.each([
    ["without a signature", unsigned, "header"],
    ["with the public key as a shared secret", shared, "header"],
    ["of another key", token(CLAIMS, { key: stranger.privateKey }), "no key of company"],
    ["whose claims were exchanged", swapped, "no key of company"],
    [
      "that says another algorithm than its key's",
      `${part({ alg: "RS256" })}.${token().split(".").slice(1).join(".")}`,
      "no key of company",
    ],
    ["that has expired", token({ ...CLAIMS, exp: NOW_S - 61 }), "expired"],
    ["of a later time", token({ ...CLAIMS, nbf: NOW_S + 61 }), "not come yet"],
    ["without an end", token({ ...CLAIMS, exp: undefined }), "lack"],
    ["for another audience", token({ ...CLAIMS, aud: "grafana" }), "another audience"],
    ["of another issuer", token({ ...CLAIMS, iss: "https://evil.example" }), "believes its issuer"],
    ["with extensions that must be understood", token(CLAIMS, { crit: ["b64"] }), "header"],
    ["of a subject that is no plain name", token({ ...CLAIMS, sub: "a b\u001b[2J" }), "subject"],
    ["that is none", "Zm9v", "no JSON Web Token"],
    ["of a megabyte", "a.b.c".padEnd(1_000_000, "c"), "no JSON Web Token"],
  ])("%s is refused", async (_what, said, reason) => {
    const check = await checkToken(said, rule());
    expect(check.kind).toBe("refused");
    expect(check.kind === "refused" && check.reason).toContain(reason);
  });
});

describe("the key set of an issuer", () => {
  const REMOTE: Issuer = { ...ISSUER, keys: undefined, jwks: "https://login.example.org/keys" };

  it("is fetched once, and again for a key that it had not, but not at each such token", async () => {
    let [fetched, nowMs] = [0, 0];
    const keys = [{ ...ed.publicKey.export({ format: "jwk" }), kid: "first" }];
    const keysOf = issuerKeys({
      nowMs: () => nowMs,
      fetch: async () => {
        fetched += 1;
        return await Promise.resolve(new Response(JSON.stringify({ keys })));
      },
    });
    const known = rule({ issuers: [REMOTE], keysOf });
    for (let time = 0; time < 3; time += 1)
      expect(await checkToken(token(CLAIMS, { kid: "first" }), known)).toEqual(KNOWN);
    expect(fetched).toBe(1);
    const second = token(CLAIMS, { kid: "second", key: stranger.privateKey });
    expect((await checkToken(second, known)).kind).toBe("refused");
    expect(fetched).toBe(1);
    keys.push({ ...stranger.publicKey.export({ format: "jwk" }), kid: "second" });
    nowMs += 31_000;
    expect(await checkToken(second, known)).toEqual(KNOWN);
    expect(fetched).toBe(2);
  });

  it("that cannot be had is asked for again after a while, by one for all; its keys stay good for an hour", async () => {
    let [fetched, nowMs, isThere] = [0, 0, false];
    const keys = [{ ...ed.publicKey.export({ format: "jwk" }), kid: "first" }];
    const keysOf = issuerKeys({
      nowMs: () => nowMs,
      fetch: async () => {
        fetched += 1;
        if (!isThere) return await Promise.reject(new Error("no route"));
        return await Promise.resolve(new Response(JSON.stringify({ keys })));
      },
    });
    const ask = () =>
      checkToken(token(CLAIMS, { kid: "first" }), rule({ issuers: [REMOTE], keysOf }));
    for (let time = 0; time < 3; time += 1)
      await expect(ask()).rejects.toMatchObject({ code: "NO_CONNECTION" });
    expect(fetched).toBe(1);
    [nowMs, isThere] = [30_000, true];
    expect(await Promise.all([ask(), ask(), ask()])).toEqual([KNOWN, KNOWN, KNOWN]);
    expect(fetched).toBe(2);
    [nowMs, isThere] = [30_000 + 3_599_000, false];
    expect(await ask()).toEqual(KNOWN);
    expect(fetched).toBe(3);
    nowMs += 1_000;
    await expect(ask()).rejects.toMatchObject({ code: "NO_CONNECTION" });
    expect(fetched).toBe(3);
  });

  it("that cannot be had lets nobody pass", async () => {
    const keysOf = issuerKeys({ fetch: () => Promise.reject(new Error("no route")) });
    await expect(checkToken(token(), rule({ issuers: [REMOTE], keysOf }))).rejects.toMatchObject({
      code: "NO_CONNECTION",
    });
  });
});

it("a key in the file that cannot be read is named", () => {
  const keys = ["-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"];
  expect(() => keysInFile({ ...ISSUER, keys })).toThrow("issuer company");
});
