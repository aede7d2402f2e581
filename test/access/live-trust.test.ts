/** @file What a host's policy says now: taken once its file has stayed as it is, kept where it is wrong or gone. */

import { chmodSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { readHostPolicy, type HostTrust } from "../../access/host-trust.ts";
import { liveTrust } from "../../access/live-trust.ts";
import { ownIdentity } from "../../access/own-identity.ts";

let dir = "";
let file = "";
const said: string[] = [];
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "orbweaver-live-trust-"));
  file = join(dir, "agent.yaml");
  said.length = 0;
});
afterEach(() => rmSync(dir, { recursive: true }));

const keyOf = (name: string): string =>
  ownIdentity({ ORBWEAVER_IDENTITY: join(dir, `${name}.pem`) }).publicKey;
const write = (text: string): void => writeFileSync(file, text, { mode: 0o600 });
const naming = (...names: readonly string[]): string =>
  JSON.stringify({ submitters: names.map((name) => ({ name, key: keyOf(name) })) });

/** At this many milliseconds after the file was written last, by the clock of the file system. */
function trustOf(): (afterMs: number) => HostTrust {
  const changedAtMs = (): number => statSync(file, { throwIfNoEntry: false })?.ctimeMs ?? 0;
  let now = 0;
  const first = { kind: "policy", file, policy: readHostPolicy(file) } as const;
  const trust = liveTrust(first, { say: (text) => said.push(text), nowMs: () => now });
  return (afterMs) => {
    now = changedAtMs() + afterMs;
    return trust();
  };
}
const namesIn = (trust: HostTrust): readonly string[] =>
  trust.kind === "policy" ? trust.policy.submitters.map(({ name }) => name) : [];

it("takes a key away a second after the file was written, and not while it is being written", () => {
  write(naming("alice", "bob"));
  const trust = trustOf();
  expect(namesIn(trust(5_000))).toEqual(["alice", "bob"]);
  write("");
  expect(namesIn(trust(999))).toEqual(["alice", "bob"]);
  write(naming("bob"));
  expect(namesIn(trust(999))).toEqual(["alice", "bob"]);
  expect(namesIn(trust(1_000))).toEqual(["bob"]);
  expect(said).toEqual([`${file}: read again`]);
});

it.each<readonly [what: string, spoil: () => void, why: RegExp]>([
  ["wrong", () => write("submitters: 7"), /expected array/],
  ["open to others", () => writeOpen(), /only they may write it/],
  ["gone", () => rmSync(file), /it is gone/],
])("stays in force where its file is %s, and says so once", (_what, spoil, why) => {
  write(naming("alice"));
  const trust = trustOf();
  spoil();
  expect(namesIn(trust(2_000))).toEqual(["alice"]);
  expect(namesIn(trust(3_000))).toEqual(["alice"]);
  expect(said).toHaveLength(1);
  expect(said[0]).toMatch(why);
  expect(said[0]).toContain("stays in force");
});
function writeOpen(): void {
  rmSync(file);
  write(naming("bob"));
  chmodSync(file, 0o666);
}

it("keeps the users of the agent's start, and takes all else", () => {
  write("users: { research: nobody }\ncommands: [sh]");
  const trust = trustOf();
  write("users: { research: root }\ncommands: [echo]\nlimits: { openFiles: 99 }");
  expect(trust(2_000)).toMatchObject({
    policy: { users: { research: "nobody" }, commands: ["echo"], limits: { openFiles: 99 } },
  });
});
