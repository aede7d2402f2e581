/** Signatures of jobs: what they bind, and who can make them. */

import fc from "fast-check";
import { chmodSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { readHostPolicy, trustRefusal, type HostTrust } from "../../access/host-trust.ts";
import { checkJobProof, contentHash, signJob } from "../../access/job-proof.ts";
import { ownIdentity, parsePublicKey } from "../../access/own-identity.ts";

const dir = mkdtempSync(join(tmpdir(), "orbweaver-proof-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));
const identityAt = (name: string): ReturnType<typeof ownIdentity> =>
  ownIdentity({ ORBWEAVER_IDENTITY: join(dir, name) });
const alice = identityAt("alice.pem");
const NOW = 1_000_000;

describe("a signature", () => {
  it("proves its signer for every content, whatever the order of its members", () => {
    fc.assert(
      fc.property(fc.string(), fc.dictionary(fc.string(), fc.jsonValue()), (jobId, content) => {
        const proof = signJob({ jobId, content }, alice, NOW);
        const reversed = Object.fromEntries(Object.entries(content).reverse());
        expect(checkJobProof(proof, { jobId, content: reversed })).toEqual({
          kind: "proven",
          by: { publicKey: alice.publicKey, name: alice.name, signedAtMs: NOW },
        });
      }),
    );
  });

  it("is that of one content: two that differ as JSON have different hashes", () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.jsonValue(), (one, other) => {
        const isSame = JSON.stringify(sorted(one)) === JSON.stringify(sorted(other));
        expect(contentHash(one) === contentHash(other)).toBe(isSame);
      }),
    );
  });

  it("fails when any of its characters is changed", () => {
    const job = { jobId: "job-1", content: { run: { command: ["true"] } } };
    const proof = signJob(job, alice, NOW);
    fc.assert(
      fc.property(
        fc.nat(proof.length - 3),
        fc.constantFrom("A", "z", "0", "."),
        (at, character) => {
          fc.pre(proof[at] !== character);
          const changed = `${proof.slice(0, at)}${character}${proof.slice(at + 1)}`;
          expect(checkJobProof(changed, job).kind).toBe("refused");
        },
      ),
    );
  });

  it("for one run of a workflow is good for that run alone, and says so", () => {
    const job = { jobId: "job-1", content: { tenant: "blue" }, run: "run-1" };
    const proof = signJob(job, alice, NOW);
    expect(checkJobProof(proof, job)).toMatchObject({ kind: "proven", by: { run: "run-1" } });
    for (const other of [
      { ...job, run: "run-2" },
      { jobId: "job-1", content: job.content },
    ])
      expect(checkJobProof(proof, other)).toEqual({
        kind: "refused",
        reason: "its signature is that of another run of its workflow",
      });
  });

  it("is refused at any junk, without an error", () => {
    const job = { jobId: "job-1", content: {} };
    fc.assert(
      fc.property(fc.anything(), (junk) => {
        expect(checkJobProof(junk, job).kind).toBe("refused");
      }),
    );
  });
});

const sorted = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null) return value;
  return Object.entries(value)
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([name, member]) => [name, sorted(member), "member"]);
};

describe("an identity", () => {
  it("is made once, for its user alone, and read afterwards", () => {
    expect(statSync(alice.file).mode & 0o777).toBe(0o600);
    expect(identityAt("alice.pem").publicKey).toBe(alice.publicKey);
    expect(identityAt("bob.pem").publicKey).not.toBe(alice.publicKey);
    expect(parsePublicKey(alice.publicKey)).toBeDefined();
  });

  it("that others may read, or that is no key, is refused", () => {
    const open = identityAt("open.pem").file;
    chmodSync(open, 0o640);
    expect(() => identityAt("open.pem")).toThrow(/readable by you alone/);
    writeFileSync(join(dir, "junk.pem"), "junk", { mode: 0o600 });
    expect(() => identityAt("junk.pem")).toThrow(/cannot be used/);
  });

  it.each(["", "ed25519:", "ed25519:AAAA", `ed25519:${"A".repeat(44)}`, "ssh-ed25519 AAAA"])(
    "the text %j names no public key",
    (text) => {
      expect(parsePublicKey(text)).toBeUndefined();
    },
  );
});

describe("a host policy", () => {
  const file = (text: string, mode = 0o644): string => {
    const path = join(dir, `policy-${contentHash(text)}-${mode.toString(8)}.yaml`);
    writeFileSync(path, text);
    chmodSync(path, mode);
    return path;
  };
  const NAMED = `submitters: [{ name: alice, key: "${alice.publicKey}" }]\n`;

  it("that is empty names nobody", () => {
    const path = file("# nobody\n");
    const trust: HostTrust = { kind: "policy", file: path, policy: readHostPolicy(path) };
    const by = { publicKey: alice.publicKey, name: "alice", signedAtMs: NOW };
    const refusal = trustRefusal(trust as Exclude<HostTrust, { kind: "namespace" }>, by, {
      tenant: "t",
      command: ["true"],
      env: {},
      agent: { name: "root", isRoot: true },
    });
    expect(refusal).toMatch(/names no submitter/);
  });

  it.each([
    ["root without users", "", true, /names no user of this host for tenant t/],
    ["root with other tenants' users", "users: { other: bob }\n", true, /names no user/],
    ["root with the tenant's user", "users: { t: bob }\n", true, undefined],
    ["root with a user for all others", 'users: { "*": bob }\n', true, undefined],
    ["another user without users", "", false, undefined],
    ["another user whom the policy names", "users: { t: agent }\n", false, undefined],
    ["another user with somebody else's jobs", "users: { t: bob }\n", false, /only one of root/],
    ["a name of an object's own", "users: { other: bob }\n", true, /for tenant constructor/],
  ])("of an agent of %s", (what, users, isRoot, want) => {
    const path = file(`${NAMED}${users}`);
    const trust = { kind: "policy", file: path, policy: readHostPolicy(path) } as const;
    const by = { publicKey: alice.publicKey, name: "alice", signedAtMs: NOW };
    const question = {
      tenant: what.startsWith("a name") ? "constructor" : "t",
      command: ["true"],
      env: {},
      agent: { name: isRoot ? "root" : "agent", isRoot },
    };
    const refusal = trustRefusal(trust, by, question);
    if (want === undefined) expect(refusal).toBeUndefined();
    else expect(refusal).toMatch(want);
    for (const name of ["LD_X", "BASH_FUNC_echo%%", "PS4"])
      expect(trustRefusal(trust, by, { ...question, env: { [name]: "1" } })).toBeDefined();
  });

  it("that others may write is refused", () => {
    expect(() => readHostPolicy(file(NAMED, 0o666))).toThrow(/only they may write it/);
    expect(readHostPolicy(file(NAMED)).submitters).toHaveLength(1);
  });

  it.each([
    ["an unknown word", "submiters: []\n", /submiters/],
    ["a key that is none", 'submitters: [{ name: a, key: "x" }]\n', /no public key/],
    ["no YAML", "submitters: [\n", /cannot be used/],
  ])("with %s is refused with the place", (_name, text, wantMessage) => {
    expect(() => readHostPolicy(file(text))).toThrow(wantMessage);
  });

  it("that is missing is refused, and a link is followed to a file with an owner", () => {
    expect(() => readHostPolicy(join(dir, "none.yaml"))).toThrow(/ENOENT/);
    symlinkSync(file(NAMED, 0o666), join(dir, "link.yaml"));
    expect(() => readHostPolicy(join(dir, "link.yaml"))).toThrow(/only they may write it/);
  });
});
