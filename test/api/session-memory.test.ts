/** @file What a submit service knows of sessions after a restart. */

import {
  appendFileSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { LONGEST_SESSION_MS } from "../../access/session-ticket.ts";
import { openSessionMemory } from "../../api/session-memory.ts";

let dir = "";
let file = "";
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "orbweaver-memory-"));
  file = join(dir, "state", "sessions.jsonl");
});
afterEach(() => rmSync(dir, { recursive: true }));

it("remembers the agent that came first, and what is over, for as long as a ticket may be shown", () => {
  let nowMs = 1_000;
  const open = () => openSessionMemory(file, () => nowMs);
  const first = open();
  first.noteAgent("one", "key of the host");
  first.noteAgent("one", "key of another");
  first.noteOver("two");
  expect(readFileSync(file, "utf8")).not.toContain("key of");
  expect(statSync(file).mode & 0o777).toBe(0o600);
  // A machine that has crashed may leave this.
  appendFileSync(file, '{"session":"thr');
  const again = open();
  expect(["key of the host", "key of another"].map((key) => again.isAgents("one", key))).toEqual([
    true,
    false,
  ]);
  expect(["one", "two", "three"].map((id) => again.isOver(id))).toEqual([false, true, false]);
  expect(again.isAgents("three", "any")).toBe(true);
  nowMs += LONGEST_SESSION_MS + 1;
  expect([open().isOver("two"), open().isAgents("one", "any")]).toEqual([false, true]);
  expect(readFileSync(file, "utf8")).toBe("");
});

it("takes no agent whose key it cannot write down", () => {
  const memory = openSessionMemory(file);
  rmSync(join(dir, "state"), { recursive: true });
  writeFileSync(join(dir, "state"), "no folder");
  expect(() => memory.noteAgent("one", "key")).toThrow();
  memory.noteOver("one");
  expect(memory.isOver("one")).toBe(true);
});
