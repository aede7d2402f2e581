/** `access:` of a fleet file: what it accepts, and how it names what is wrong. */

import { describe, expect, it } from "vitest";
import { parseFleetYaml } from "../../../domain/fleet/fleet-file.ts";

const CLUSTER = `
clusters:
  - { name: a, site: here, jurisdiction: EU, hosts: [{ name: h1, gpus: 8, type: H100 }] }
`;
const parse = (access: string): ReturnType<typeof parseFleetYaml> =>
  parseFleetYaml(`${CLUSTER}access:${access}`, {
    file: "fleet.yaml",
    read: () => ({ kind: "missing", reason: "does not exist" }),
  });
const KEY = `ed25519:${"A".repeat(43)}`;

it("is part of the fleet, and not of the shape that workflows have", () => {
  const parsed = parse(`
  principals:
    - { name: ada, user: ada, subject: u-17, issuer: company }
    - { name: bob, certificate: "email:bob@example.org" }
  groups: [{ name: vision, members: [ada] }, { name: ops }]
  grants:
    - { to: [vision], role: user, tenants: [research], classes: [training], priority: 10, gpuTypes: [h100], jobs: tenant }
    - { to: [ops], role: operator }
    - { to: ["*"], role: viewer }
  issuers:
    - { name: company, issuer: "https://x", audience: orbweaver, keys: ["${KEY}"], groups: groups }
`);
  expect(parsed.kind).toBe("parsed");
  const fleet = parsed.kind === "parsed" ? parsed.fleet : undefined;
  expect(fleet?.access?.grants?.[0]).toMatchObject({ gpuTypes: ["H100"], jobs: "tenant" });
  expect(JSON.stringify(fleet?.shape)).not.toContain("ada");
});

const oneIssuer = (more: string): string =>
  ` { issuers: [{ name: c, issuer: i, audience: a, ${more} }] }`;
describe("it refuses", () => {
  it.each([
    [
      "a principal that nothing identifies",
      " { principals: [{ name: ada }] }",
      "access.principals[0]",
    ],
    [
      "a subject without an issuer",
      " { principals: [{ name: ada, subject: s }] }",
      "access.principals[0]",
    ],
    [
      "an unknown issuer",
      " { principals: [{ name: ada, subject: s, issuer: c }] }",
      "access.principals[0].issuer",
    ],
    [
      "one user under two names",
      " { principals: [{ name: a, user: u }, { name: b, user: u }] }",
      "access.principals[1].user",
    ],
    [
      "a certificate's name without its kind",
      " { principals: [{ name: ada, certificate: ada }] }",
      "access.principals[0].certificate",
    ],
    [
      "one certificate's name under two names",
      " { principals: [{ name: a, certificate: CN=u }, { name: b, certificate: CN=u }] }",
      "access.principals[1].certificate",
    ],
    [
      "a name of a principal and of a group",
      " { principals: [{ name: a, user: u }], groups: [{ name: a }] }",
      "access.groups[0].name",
    ],
    [
      "a member that is no principal",
      " { groups: [{ name: g, members: [eve] }] }",
      "access.groups[0].members[0]",
    ],
    [
      "a grant to nobody known",
      " { grants: [{ to: [eve], role: viewer }] }",
      "access.grants[0].to[0]",
    ],
    ["a user without a tenant", ' { grants: [{ to: ["*"], role: user }] }', "access.grants[0]"],
    [
      "an operator with a class",
      ' { grants: [{ to: ["*"], role: operator, classes: [training] }] }',
      "access.grants[0].classes",
    ],
    [
      "a role that there is not",
      ' { grants: [{ to: ["*"], role: admin }] }',
      "access.grants[0].role",
    ],
    ["an issuer without keys", oneIssuer("groups: g"), "access.issuers[0]"],
    [
      "an issuer with two sources of keys",
      oneIssuer(`jwks: "https://x/k", keys: ["${KEY}"]`),
      "access.issuers[0]",
    ],
    ["keys that come in clear", oneIssuer('jwks: "http://x.example/k"'), "access.issuers[0].jwks"],
    ["a key that is none", oneIssuer('keys: ["ssh-ed25519 AAAA"]'), "access.issuers[0].keys[0]"],
    [
      "a private key",
      oneIssuer('keys: ["-----BEGIN PRIVATE KEY-----"]'),
      "access.issuers[0].keys[0]",
    ],
  ])("%s, naming its place", (_what, access, place) => {
    const parsed = parse(access);
    expect(parsed.kind).toBe("refused");
    const problems = parsed.kind === "refused" ? parsed.problems : [];
    expect(problems).toHaveLength(1);
    expect(problems[0]?.path).toBe(place);
    expect(problems[0]?.remedy).not.toBe("");
  });
});
