/** Level 1: users who come to the submit service with client certificates, over TLS. */

import { X509Certificate } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { once } from "node:events";
import { request } from "node:https";
import type { AddressInfo } from "node:net";
import { connect } from "node:tls";
import type { Server } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { certificateNames } from "../../access/certificate.ts";
import type { AuditEntry } from "../../access/audit-log.ts";
import { createDoor, HTTP_LIMITS, type ServiceParts } from "../../api/http.ts";
import { followRevocations } from "../../api/revocations.ts";
import { remoteSender } from "../../api/remote-sender.ts";
import { standInIssuer } from "../../bench/interactive/stand-in-issuer.ts";
import { machineFindings } from "../../cli/doctor/machine-checks.ts";
import type { Access } from "../../domain/fleet/access-schema.ts";
import { clientAuthority, type ClientAuthority, type Pem } from "../support/client-certificates.ts";
import { ownCertificate } from "../support/own-certificate.ts";

const URI = "URI:spiffe://example.org/ada";
const authority = clientAuthority();
const own = ownCertificate();
const issuer = standInIssuer();
const company = {
  ...{ name: "company", issuer: "https://login.example", audience: "orbweaver" },
  keys: [/ed25519:[\w-]+/.exec(issuer.line)?.[0] ?? ""],
};
const access: Access = {
  principals: [
    { name: "ada", certificate: URI },
    { name: "bob", certificate: "CN=bob,O=Example" },
    { name: "carol", subject: "carol", issuer: "company" },
  ],
  grants: [{ to: ["*"], role: "viewer" }],
  issuers: [company],
};

const namesOf = ({ cert }: Pem): readonly string[] => certificateNames(new X509Certificate(cert));

interface Answer {
  readonly status: number;
  readonly text: string;
}

describe.skipIf(authority === undefined || own === undefined)("by a client certificate", () => {
  const { ca, issue, revoke }: ClientAuthority = authority as ClientAuthority; // skipped without
  const tls = { ...(own as Pem), clientCa: ca };
  const audited: AuditEntry[] = [];
  let server: Server | undefined;

  const parts = {
    served: { fleet: "f" },
    access: () => access,
    audit: { add: (entry: AuditEntry) => void audited.push(entry) },
    version: "0.0.0",
    limits: HTTP_LIMITS,
  } as unknown as ServiceParts;

  beforeAll(async () => {
    const senderOf = remoteSender(() => access);
    const door = { who: "unknown", fromOf: () => "", senderOf, tls };
    const opened = createDoor(door, parts);
    server = opened;
    await new Promise<void>((resolve) => opened.listen(0, "127.0.0.1", resolve));
  });
  afterAll(() => {
    server?.closeAllConnections();
    server?.close();
    authority?.remove();
  });

  const me = async (pem?: Pem, token?: string): Promise<Answer> =>
    await new Promise((resolve, reject) => {
      const address = server?.address();
      const port = typeof address === "object" && address !== null ? address.port : 0;
      const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
      const options = { port, host: "127.0.0.1", path: "/v1/me", ca: tls.cert, headers };
      const asking = request({ ...options, ...pem, agent: false }, (response) => {
        let text = "";
        response.setEncoding("utf8").on("data", (part: string) => (text += part));
        response.once("end", () => resolve({ status: response.statusCode ?? 0, text }));
      });
      asking.once("error", reject);
      asking.end();
    });

  it("is known by an alternative name, or by the whole subject", async () => {
    const ada = issue("/CN=whoever", [`subjectAltName=${URI},email:x@example.org`]);
    const { status, text } = await me(ada);
    expect(status).toBe(200);
    expect(JSON.parse(text)).toMatchObject({ name: "ada", via: "certificate", groups: [] });
    const bob = await me(issue("/CN=bob/O=Example"));
    expect(JSON.parse(bob.text)).toMatchObject({ name: "bob", via: "certificate" });
  });

  it("whoever shows a token is known by that alone", async () => {
    const { text } = await me(issue("/CN=bob/O=Example"), issuer.tokenOf("carol"));
    expect(JSON.parse(text)).toMatchObject({ name: "carol", via: "token:company" });
    const wrong = await me(issue("/CN=bob/O=Example"), issuer.tokenOf("carol", { exp: 1 }));
    expect(wrong.status).toBe(401);
    expect((await me(undefined, issuer.tokenOf("carol"))).status).toBe(200);
  });

  it.each([
    ["none at all", () => undefined],
    ["one that nobody has a name of", () => issue("/CN=mallory")],
    ["a part of a subject", () => issue("/CN=bob")],
    ["a subject in another order", () => issue("/O=Example/CN=bob")],
    ["a subject with more in it", () => issue("/CN=bob/O=Example/OU=x")],
    ["a name that only looks like a subject", () => issue("/CN=bob,O=Example")],
    [
      "a subject that only looks like an alternative name",
      () => issue("/CN=spiffe:\\/\\/example.org\\/ada"),
    ],
    [
      "another kind of alternative name",
      () => issue("/CN=x", ["subjectAltName=DNS:spiffe.example.org,email:URI@example.org"]),
    ],
    ["names of two principals", () => issue("/CN=bob/O=Example", [`subjectAltName=${URI}`])],
    ["one for servers alone", () => issue("/CN=bob/O=Example", ["extendedKeyUsage=serverAuth"])],
    ["one that it has signed itself", () => own as Pem],
    [
      "one of another authority",
      () => {
        const other = clientAuthority() as ClientAuthority;
        try {
          return other.issue("/CN=bob/O=Example");
        } finally {
          other.remove();
        }
      },
    ],
  ])("%s is refused, with a line", async (_what, pem) => {
    const before = audited.length;
    expect((await me(pem())).status).toBe(401);
    expect(audited.slice(before)).toMatchObject([{ who: "unknown", verdict: "refused" }]);
  });

  it("a name with a comma cannot pass for two names", async () => {
    const tricky = issue("/CN=x", [
      "subjectAltName=@names",
      "[names]",
      "DNS.1=x.example.org",
      `URI.1=http://x/\\, ${URI}`,
      "email.1=x@example.org",
    ]);
    expect(namesOf(tricky)).toEqual(["CN=x", "DNS:x.example.org", "email:x@example.org"]);
    expect((await me(tricky)).status).toBe(401);
    expect(namesOf(issue("/CN=bob,O=Example"))).toEqual(["CN=bob\\,O=Example"]);
  });

  it("one that the list names is refused, from the moment at which the list does, and so is every one while no list is in date", async () => {
    const [ada, bob] = [issue("/CN=a", [`subjectAltName=${URI}`]), issue("/CN=bob/O=Example")];
    const said: string[] = [];
    let crl: string | undefined = revoke();
    const listed = { ...tls, clientCrl: crl };
    const door = { who: "unknown", fromOf: () => "", senderOf: remoteSender(() => access) };
    const plain = server;
    const opened = createDoor({ ...door, tls: listed }, parts);
    const look = followRevocations(opened, {
      tls: listed,
      readCrl: () => {
        if (crl === undefined) throw new Error("it is away");
        return crl;
      },
      say: (text) => said.push(text),
    });
    server = opened;
    try {
      await new Promise<void>((resolve) => opened.listen(0, "127.0.0.1", resolve));
      expect([(await me(ada)).status, (await me(bob)).status]).toEqual([200, 200]);
      const { port } = opened.address() as AddressInfo; // of a listening TCP server
      const kept = connect({ port, host: "127.0.0.1", ca: tls.cert, ...bob });
      await once(kept, "secureConnect");
      const closed = once(
        kept.on("error", () => undefined),
        "close",
      );
      crl = revoke(bob);
      look();
      await closed;
      const before = audited.length;
      expect([(await me(ada)).status, (await me(bob)).status]).toEqual([200, 401]);
      expect(audited.slice(before)).toMatchObject([
        { verdict: "refused", why: expect.stringContaining("revoked") as string },
      ]);
      crl = undefined;
      look();
      look();
      expect([(await me(ada)).status, (await me(bob)).status]).toEqual([200, 401]);
      // A list of another authority says nothing of this one's.
      const other = clientAuthority() as ClientAuthority; // as above
      crl = other.revoke();
      other.remove();
      look();
      expect((await me(ada)).status).toBe(401);
      expect((await me(undefined, issuer.tokenOf("carol"))).status).toBe(200);
      expect(said.map((text) => /in force/.test(text))).toEqual([false, true, false]);
    } finally {
      opened.closeAllConnections();
      opened.close();
      server = plain;
    }
  });

  it("the doctor looks at the certificate that is named", async () => {
    const dir = mkdtempSync(join(tmpdir(), "orbweaver-doctor-"));
    try {
      const [ada, bob] = [issue("/CN=ada"), issue("/CN=bob")];
      const [cert, key, other] = ["cert", "key", "other"].map((name) => join(dir, name));
      if (cert === undefined || key === undefined || other === undefined) throw new Error("none");
      writeFileSync(cert, ada.cert);
      writeFileSync(key, ada.key, { mode: 0o600 });
      writeFileSync(other, bob.key, { mode: 0o600 });
      const found = async (keyFile: string, inDays = 0): Promise<unknown> => {
        const env = { ORBWEAVER_API_CERT_FILE: cert, ORBWEAVER_API_KEY_FILE: keyFile, HOME: dir };
        const nowMs = (): number => Date.now() + inDays * 86_400_000;
        const place = { env, stateDir: join(dir, "none"), isEncrypted: true, nowMs };
        const findings = await machineFindings(place);
        return findings.find(({ check }) => check === "client certificate")?.verdict;
      };
      // It is for two days.
      expect(await found(key)).toBe("warning");
      expect(await found(key, 3)).toBe("problem");
      expect(await found(other)).toBe("problem");
      expect(await found(join(dir, "missing"))).toBe("problem");
    } finally {
      rmSync(dir, { recursive: true });
    }
  });
});
