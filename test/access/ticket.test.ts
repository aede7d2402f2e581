/** Tickets of leases: what they bind, whose keys count, and what a rotation and a revocation change. */

import fc from "fast-check";
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import {
  believedKeys,
  fleetKeyFiles,
  makeRoleKeys,
  revokeRoleKey,
  rotateRoleKeys,
  signingKey,
} from "../../access/role-keys.ts";
import {
  checkTicket,
  signTicket,
  submitterIn,
  ticketMismatch,
  type LaunchTicket,
  type TicketUse,
} from "../../access/ticket.ts";

const dir = mkdtempSync(join(tmpdir(), "orbweaver-tickets-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));
const keysAt = (name: string) => fleetKeyFiles({ ORBWEAVER_KEYS: join(dir, name) });

const TICKET: LaunchTicket = {
  kind: "launch",
  fleet: "orbweaver-fleet-default",
  job: "train-1",
  lease: "lease-7",
  token: 7,
  gpus: [
    ["alpha/a1", 3],
    ["alpha/a2", 12],
  ],
  hash: "abc",
  by: "ed25519:key",
  until: 1_000,
};
const USE: TicketUse = {
  fleet: TICKET.fleet,
  job: TICKET.job,
  lease: TICKET.lease,
  token: TICKET.token,
  host: "alpha/a2",
};

it("a ticket is good for its lease on each of its hosts, and says who submitted the job", () => {
  const files = keysAt("good");
  const believed = makeRoleKeys(files);
  const signed = signTicket(TICKET, signingKey(files)());
  expect(checkTicket(signed, believed)).toEqual({ kind: "good", ticket: TICKET });
  expect(ticketMismatch(TICKET, USE)).toBeUndefined();
  expect(submitterIn(signed)).toBe(TICKET.by);
  expect(checkTicket(undefined, believed).kind).toBe("absent");
});

it.each([
  ["fleet", { fleet: "orbweaver-fleet-other" }],
  ["job", { job: "train-2" }],
  ["lease", { lease: "lease-8" }],
  ["token", { token: 2 ** 52 }],
  ["host", { host: "alpha/a3" }],
])("a ticket for another %s is none", (name, other) => {
  expect(ticketMismatch(TICKET, { ...USE, ...other })).toContain(`for ${name}`);
});

it("no change of a character leaves a ticket good", () => {
  const files = keysAt("changed");
  const believed = makeRoleKeys(files);
  const signed = signTicket(TICKET, signingKey(files)());
  fc.assert(
    fc.property(fc.nat(signed.length - 1), fc.constantFrom(..."AQgw_.{"), (at, letter) => {
      const changed = signed.slice(0, at) + letter + signed.slice(at + 1);
      const check = checkTicket(changed, believed);
      // The last letter of a signature has bits that nothing reads.
      if (changed === signed || at === signed.length - 1) return;
      expect(check.kind).not.toBe("good");
    }),
  );
});

it("junk of any shape is refused", () => {
  fc.assert(
    fc.property(fc.anything(), (junk) => {
      expect(checkTicket(junk, []).kind).not.toBe("good");
    }),
  );
});

it("the private key is the owner's alone; what was signed before a rotation is good until the next", () => {
  const files = keysAt("rotated");
  const [first] = makeRoleKeys(files);
  expect(statSync(files.privateFile).mode & 0o077).toBe(0);
  const key = signingKey(files);
  const believed = believedKeys(files);
  const old = signTicket(TICKET, key());
  const [second, former] = rotateRoleKeys(files);
  expect(former).toBe(first);
  expect(second).not.toBe(first);
  // Both sides read their files again.
  expect(checkTicket(old, believed()).kind).toBe("good");
  expect(checkTicket(signTicket(TICKET, key()), [second ?? ""]).kind).toBe("good");
  expect(rotateRoleKeys(files)).toHaveLength(2);
  expect(checkTicket(old, believed()).kind).toBe("unknown-key");
});

it("a revoked key counts no more; one that signs is replaced first", () => {
  const files = keysAt("revoked");
  const [first = ""] = makeRoleKeys(files);
  const key = signingKey(files);
  const believed = believedKeys(files);
  const stolen = signTicket(TICKET, key());
  const [second = ""] = revokeRoleKey(first, files);
  expect(believed()).toEqual([second]);
  expect(checkTicket(stolen, believed()).kind).toBe("unknown-key");
  expect(checkTicket(signTicket(TICKET, key()), believed()).kind).toBe("good");
  expect(() => revokeRoleKey(first, files)).toThrow("does not list");
});
