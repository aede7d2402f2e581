/** Who may do what, by the roles of `access:`. */

import { describe, expect, it } from "vitest";
import {
  fleetRefusal,
  fleetsRefusal,
  jobRefusal,
  operatorRefusal,
  rightsOf,
  seesOthers,
  serviceRefusal,
  submitRefusal,
  type JobAct,
  type Principal,
} from "../../access/principal.ts";
import type { Access } from "../../domain/fleet/access-schema.ts";
import { readJob, type JobFile } from "../../client/index.ts";

const ACCESS: Access = {
  groups: [{ name: "vision", members: ["ada"] }, { name: "ops" }],
  grants: [
    { to: ["vision"], role: "user", tenants: ["research"], classes: ["training"], priority: 10 },
    { to: ["vision"], role: "user", tenants: ["shared"], gpuTypes: ["L4"], jobs: "tenant" },
    { to: ["vera"], role: "viewer" },
    { to: ["ops"], role: "operator" },
  ],
};
const principal = (name: string, more: Partial<Principal> = {}): Principal => ({
  name,
  via: "socket",
  isOwner: false,
  groups: [],
  ...more,
});
const ada = principal("ada");
const vera = principal("vera");
const oscar = principal("company:oscar", { groups: ["ops", "wheel"] });
const eve = principal("eve");
const owner = principal("root", { isOwner: true });

const specOf = (file: object): ReturnType<typeof readJob>["spec"] =>
  readJob({ name: "j", gang: 1, run: { command: ["true"] }, ...file } as JobFile).spec;

describe("a service of a tenant", () => {
  it.each([
    ["asked by its user", ada, { act: "ask", tenant: "research" }, true],
    ["looked at by its user", ada, { act: "look", tenant: "research" }, true],
    ["asked by another tenant's user", ada, { act: "ask", tenant: "secret" }, false],
    ["looked at by a viewer", vera, { act: "look", tenant: "secret" }, true],
    ["asked by a viewer", vera, { act: "ask", tenant: "secret" }, false],
    ["asked by an operator", oscar, { act: "ask", tenant: "secret" }, true],
    ["asked by a stranger", eve, { act: "ask", tenant: "research" }, false],
  ] as const)("%s", (_case, who, of, isAllowed) => {
    expect(serviceRefusal(who, rightsOf(who, ACCESS), of) === undefined).toBe(isAllowed);
  });
});

describe("submitting", () => {
  it.each([
    ["for its tenant", ada, { tenant: "research" }, undefined],
    ["at the highest priority", ada, { tenant: "research", priority: 10 }, undefined],
    ["above it", ada, { tenant: "research", priority: 11 }, "priority 10 at most"],
    ["in another class", ada, { tenant: "research", class: "inference" }, "class training"],
    ["for another tenant", ada, { tenant: "secret" }, "not for tenant secret"],
    ["for no tenant", ada, {}, "not for tenant default"],
    [
      "on a type of another grant",
      ada,
      { tenant: "shared", constraints: { gpuTypes: ["H100"] } },
      "not H100",
    ],
    ["on any type where only one is granted", ada, { tenant: "shared" }, "names no type"],
    [
      "on the granted type",
      ada,
      { tenant: "shared", constraints: { gpuTypes: ["L4"] } },
      undefined,
    ],
    ["of a viewer", vera, { tenant: "research" }, "may not submit"],
    ["of a stranger", eve, { tenant: "research" }, "may not submit"],
    ["of an operator by its token's group", oscar, { tenant: "secret" }, undefined],
    ["of the owner", owner, { tenant: "secret" }, undefined],
  ])("%s", (_what, who, file, want) => {
    const refusal = submitRefusal(who, rightsOf(who, ACCESS), specOf(file));
    if (want === undefined) expect(refusal).toBeUndefined();
    else expect(refusal).toContain(want);
  });
});

describe("a job", () => {
  const OWN = { user: "ada", tenant: "research" };
  const OTHERS = { user: "bob", tenant: "research" };
  const SHARED = { user: "bob", tenant: "shared" };
  const UNKNOWN = { user: undefined, tenant: "research" };
  const acts: readonly JobAct[] = ["see", "read", "change"];
  it.each([
    ["its own", ada, OWN, ["see", "read", "change"]],
    ["another's of its tenant", ada, OTHERS, []],
    ["another's of a tenant whose jobs it has", ada, SHARED, ["see", "read", "change"]],
    ["one whose submitter is not known", ada, UNKNOWN, []],
    ["any, to a viewer", vera, OTHERS, ["see"]],
    ["any, to an operator", oscar, UNKNOWN, ["see", "read", "change"]],
    ["any, to a stranger", eve, OTHERS, []],
    ["any, to the owner", owner, OTHERS, ["see", "read", "change"]],
  ])("%s", (_what, who, job, want) => {
    const may = acts.filter(
      (act) => jobRefusal(who, rightsOf(who, ACCESS), { act, job }) === undefined,
    );
    expect(may).toEqual(want);
  });
});

it("orders about hosts are an operator's, and the fleet is seen by those who have a role", () => {
  const who = [ada, vera, oscar, eve, owner];
  const may = (refusal: typeof fleetRefusal): readonly string[] =>
    who
      .filter((each) => refusal(each, rightsOf(each, ACCESS)) === undefined)
      .map(({ name }) => name);
  expect(may((each, rights) => operatorRefusal(each, rights, "drain"))).toEqual([
    "company:oscar",
    "root",
  ]);
  expect(may(fleetRefusal)).toEqual(["ada", "vera", "company:oscar", "root"]);
});

it("a token's group that the file does not name gives nothing", () => {
  const mallory = principal("company:m", { groups: ["vision "] });
  expect(rightsOf(mallory, ACCESS).roles).toEqual([]);
});

it.each([
  ["to this fleet", ada, ["here"], undefined],
  ["to another one", ada, ["here", "there"], "may not submit to fleet there"],
  ["to another one, as an operator", oscar, ["there"], undefined],
])("a job goes %s", (_where, who, fleets, want) => {
  const refusal = fleetsRefusal(who, rightsOf(who, ACCESS), { home: "here", fleets });
  if (want === undefined) expect(refusal).toBeUndefined();
  else expect(refusal).toContain(want);
});

it("others' jobs are seen by all but plain users", () => {
  const own: Access = { grants: [{ to: ["ada"], role: "user", tenants: ["research"] }] };
  expect(seesOthers(rightsOf(ada, own))).toBe(false);
  // A grant of all jobs of its tenants.
  expect(seesOthers(rightsOf(ada, ACCESS))).toBe(true);
  expect(seesOthers(rightsOf(vera, ACCESS))).toBe(true);
  expect(seesOthers(rightsOf(owner, own))).toBe(true);
});
