/** @file Whom an agent opens sessions for: by a ticket of the right key, for this very run, that was never used and is not over. */

import { generateKeyPairSync } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { publicKeyText, type Identity } from "../../access/own-identity.ts";
import {
  SESSION_TICKET_MS,
  signSessionTicket,
  type SessionTicket,
} from "../../access/session-ticket.ts";
import { signTicket } from "../../access/ticket.ts";
import { hostId, jobId, leaseId, token } from "../../domain/values/ids.ts";
import type { RunOrder } from "../../protocol/agent-contract.ts";
import { sessionCheck } from "../../workers/session-check.ts";
import { usedNumbers } from "../../workers/used-numbers.ts";

const NOW = 1_000_000_000;
const identity = (): Identity => {
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  return { name: "ada", file: "", privateKey, publicKey: publicKeyText(publicKey) };
};
const ADA = identity();
const CLAIMS: Omit<SessionTicket, "kind" | "by"> = {
  ...{ principal: "ada", job: "job-1", lease: "lease-1", host: "eu/node1", rank: 0 },
  ...{ verb: "exec", nonce: "n".repeat(24), relays: ["unix:/run/api.sock"] },
  ...{ until: NOW + SESSION_TICKET_MS, ends: NOW + 3_600_000 },
};
// The check reads these two of a stored order.
const STORED = { jobId: "job-1" } as unknown as RunOrder;
const orderWith = (ticket: string) => ({
  ...{ jobId: jobId("job-1"), host: hostId("eu", "node1"), leaseId: leaseId(token(1)), ticket },
});
let dir = "";
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "orbweaver-sessions-"));
});
afterEach(() => rmSync(dir, { recursive: true }));

/** Of an agent that is started now, on what its predecessors have left. */
const check = (nowMs = NOW) => {
  const numbers = usedNumbers(join(dir, "sessions.json"));
  const trust = { kind: "own-user", publicKey: ADA.publicKey, name: "ada" } as const;
  return sessionCheck(
    { trust: () => trust },
    () => numbers,
    () => nowMs,
  );
};
const signed = (claims: Partial<typeof CLAIMS> = {}, by = ADA): string =>
  signSessionTicket({ ...CLAIMS, ...claims }, by);

it("opens one session by a ticket, and none by the same one again", () => {
  const checks = check();
  expect(checks.opens(orderWith(signed()), STORED)).toMatchObject({ verb: "exec", rank: 0 });
  expect(checks.opens(orderWith(signed()), STORED)).toBe("its ticket was used before");
});

it("takes a ticket that was used before it was started again for used, and forgets it when it is over", () => {
  check().opens(orderWith(signed()), STORED);
  expect(check().opens(orderWith(signed()), STORED)).toBe("its ticket was used before");
  const other = orderWith(signed({ nonce: "m".repeat(24), until: NOW + 2 * SESSION_TICKET_MS }));
  expect(check(NOW + SESSION_TICKET_MS + 1).opens(other, STORED)).toMatchObject({ verb: "exec" });
  expect(Object.keys(JSON.parse(readFileSync(join(dir, "sessions.json"), "utf8")))).toEqual([
    "m".repeat(24),
  ]);
});

it("opens nothing by a ticket whose number it cannot write down", () => {
  const numbers = usedNumbers(join(dir, "gone", "sessions.json"));
  writeFileSync(join(dir, "gone"), "no folder");
  const trust = { kind: "own-user", publicKey: ADA.publicKey, name: "ada" } as const;
  const checks = sessionCheck(
    { trust: () => trust },
    () => numbers,
    () => NOW,
  );
  expect(() => checks.opens(orderWith(signed()), STORED)).toThrow();
});

const [text = "", signature = ""] = signed().split(".");
const others = Buffer.from(text, "base64url").toString().replace("job-1", "job-2");
it.each<readonly [what: string, ticket: string, why: RegExp]>([
  ["of another key", signed({}, identity()), /only the submitter/],
  ["that was changed", `${Buffer.from(others).toString("base64url")}.${signature}`, /forged/],
  ["without a form", "ticket", /another form/],
  ["of another job", signed({ job: "job-2" }), /another run/],
  ["of another lease", signed({ lease: "lease-2" }), /another run/],
  ["of another host", signed({ host: "eu/node2" }), /for host eu\/node2/],
  ["that is over", signed({ until: NOW - 1 }), /over/],
  ["that is good for too long", signed({ until: NOW + 3_600_000 }), /over/],
  ["for a session without an end", signed({ ends: NOW + 1e12 }), /more than a day/],
])("refuses a ticket %s", (_what, ticket, why) => {
  expect(check().opens(orderWith(ticket), STORED)).toMatch(why);
});

it("refuses a run that this host has not started", () => {
  expect(check().opens(orderWith(signed()), undefined)).toMatch(/has not started/);
});

it("lets a host's policy have the word on commands", () => {
  const policy = { submitters: [], commands: ["/opt/tools/"], deniedEnv: [], secrets: {} };
  const limits = { processes: 1, openFiles: 16 };
  const whole = { ...policy, operators: [], limits };
  const checks = sessionCheck(
    { trust: () => ({ kind: "policy", file: "agent.yaml", policy: whole }) },
    () => usedNumbers(join(dir, "sessions.json")),
  );
  const ticket: SessionTicket = { ...CLAIMS, kind: "session", by: ADA.publicKey };
  const idleMs = 1_000;
  expect(checks.starts(ticket, { command: ["/opt/tools/top"], idleMs })).toBeUndefined();
  expect(checks.starts(ticket, { command: ["bash"], idleMs })).toMatch(
    /does not allow the command/,
  );
});

it("opens no session of a submitter whom the policy names no more, and ends the one that is open", () => {
  const named = [{ name: "ada", key: ADA.publicKey }];
  const limits = { processes: 1, openFiles: 16 };
  const policy = { operators: [], deniedEnv: [], secrets: {}, limits };
  let submitters = named;
  const checks = sessionCheck(
    { trust: () => ({ kind: "policy", file: "agent.yaml", policy: { ...policy, submitters } }) },
    () => usedNumbers(join(dir, "sessions.json")),
    () => NOW,
  );
  const fleet = { privateKey: generateKeyPairSync("ed25519").privateKey };
  const launch = { kind: "launch", fleet: "f", job: "job-1", lease: "lease-1", token: 1 } as const;
  const stored = {
    jobId: "job-1",
    ticket: signTicket(
      { ...launch, gpus: [["eu/node1", 1]], hash: "h", by: ADA.publicKey, until: NOW },
      fleet.privateKey,
    ),
  } as unknown as RunOrder;
  const ticket = checks.opens(orderWith(signed()), stored);
  expect(ticket).toMatchObject({ by: ADA.publicKey });
  if (typeof ticket === "string") throw new Error(ticket);
  expect(checks.goesOn(ticket, stored)).toBe(true);
  submitters = [];
  expect(checks.goesOn(ticket, stored)).toBe(false);
  const other = orderWith(signed({ nonce: "m".repeat(24) }));
  expect(checks.opens(other, stored)).toMatch(/only the submitter/);
});
