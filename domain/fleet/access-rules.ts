/** @file The rules between the entries of `access:` in a fleet file: names that are unique and exist, and keys that belong together. */

import { pathText, shown, type ValuePath } from "../values/file-problem.ts";
import { EVERYBODY, type Access, type Grant, type Issuer } from "./access-schema.ts";
import { sameNames, unknownName, type NamedEntry, type RuleProblem } from "./fleet-names.ts";

/** `undefined`: none was written, or what was written has problems of its own. */
export function accessProblems(access: Access | undefined): RuleProblem[] {
  if (access === undefined) return [];
  const { principals = [], groups = [], grants = [], issuers = [] } = access;
  const entries = (key: string, items: readonly { readonly name: string }[]): NamedEntry[] =>
    items.map((item, at) => ({ path: ["access", key, at], item }));
  const people = entries("principals", principals);
  const names = principals.map(({ name }) => name);
  const grantees = [...names, ...groups.map(({ name }) => name), EVERYBODY];
  return [
    ...sameNames("principal or group", [...people, ...entries("groups", groups)]),
    ...sameNames("issuer", entries("issuers", issuers)),
    ...principalProblems(access),
    ...twice(access, "user"),
    ...twice(access, "subject"),
    ...twice(access, "certificate"),
    ...groups.flatMap(({ members = [] }, group) =>
      members.flatMap((name, at) =>
        unknownName("principal", { path: ["access", "groups", group, "members", at], name }, names),
      ),
    ),
    ...grants.flatMap((grant, at) => [
      ...grant.to.flatMap((name, which) =>
        unknownName(
          "principal or group",
          { path: ["access", "grants", at, "to", which], name, of: "access" },
          grantees,
        ),
      ),
      ...grantProblems(grant, ["access", "grants", at]),
    ]),
    ...issuers.flatMap((issuer, at) => issuerProblems(issuer, ["access", "issuers", at])),
  ];
}

function principalProblems({ principals = [], issuers = [] }: Access): RuleProblem[] {
  return principals.flatMap((principal, at): RuleProblem[] => {
    const path: ValuePath = ["access", "principals", at];
    const { user, subject, issuer, certificate } = principal;
    if (user === undefined && subject === undefined && certificate === undefined) {
      const message = "nothing says how this user is known";
      const remedy =
        "add user (of the machine), subject and issuer (of tokens), or certificate (a name in one)";
      return [{ path, value: principal, message, remedy }];
    }
    if (certificate !== undefined && !CERTIFICATE_NAME.test(certificate)) {
      const message = `${shown(certificate)} is no name of a certificate`;
      const remedy = "write CN=ada,O=Example, email:ada@example.org, URI:… or DNS:…";
      return [{ path: [...path, "certificate"], value: certificate, message, remedy }];
    }
    if ((subject === undefined) !== (issuer === undefined)) {
      const message = "subject and issuer belong together";
      return [{ path, value: principal, message, remedy: "write both, or neither" }];
    }
    if (issuer === undefined) return [];
    const known = issuers.map(({ name }) => name);
    return unknownName("issuer", { path: [...path, "issuer"], name: issuer, of: "access" }, known);
  });
}

/** A subject begins with a type and `=`; other names have a type before a colon. */
const CERTIFICATE_NAME = /^(?:[A-Za-z][A-Za-z0-9.]*=.+|(?:email|URI|DNS|IP Address):[^\s",]+)$/;

/** One user of the machine, one subject of an issuer, or one name of certificates is one principal. */
function twice(
  { principals = [] }: Access,
  key: "user" | "subject" | "certificate",
): RuleProblem[] {
  const firstPaths = new Map<string, ValuePath>();
  return principals.flatMap((principal, at): RuleProblem[] => {
    const value = principal[key];
    if (value === undefined) return [];
    const id = key === "subject" ? JSON.stringify([principal.issuer, value]) : value;
    const path: ValuePath = ["access", "principals", at, key];
    const first = firstPaths.get(id);
    firstPaths.set(id, first ?? path);
    if (first === undefined) return [];
    const message = `${key} ${shown(value)} is there twice, first at ${pathText(first)}`;
    return [{ path, value, message, remedy: "keep one of the two principals" }];
  });
}

const ONLY_OF_USERS = ["tenants", "jobs", "classes", "priority", "gpuTypes"] as const;

function grantProblems(grant: Grant, path: ValuePath): RuleProblem[] {
  if (grant.role === "user") {
    if (grant.tenants !== undefined) return [];
    const message = "a user submits for tenants, and none is named";
    return [{ path, value: grant, message, remedy: "add tenants: [research]" }];
  }
  const key = ONLY_OF_USERS.find((each) => grant[each] !== undefined);
  if (key === undefined) return [];
  const message = `${key} limits users, and the role is ${grant.role}`;
  return [{ path: [...path, key], value: grant[key], message, remedy: "leave it out" }];
}

function issuerProblems(issuer: Issuer, path: ValuePath): RuleProblem[] {
  const { jwks, keys } = issuer;
  if ((jwks === undefined) === (keys === undefined)) {
    const message = "an issuer has one source of keys";
    return [{ path, value: issuer, message, remedy: "write jwks or keys" }];
  }
  if (
    jwks === undefined ||
    /^https:\/\/|^http:\/\/(?:127\.0\.0\.1|localhost|\[::1\])[:/]/.test(jwks)
  )
    return [];
  const message = `${shown(jwks)} is not https, so anybody on the way could exchange the keys`;
  return [{ path: [...path, "jwks"], value: jwks, message, remedy: "write an https address" }];
}
