/** @file What a submit service knows of sessions after a restart. */

import {
  appendFileSync,
  mkdirSync,
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
  expect(() => memory.noteAgent("one", "key")).toThrow();
  expect(memory.isAgents("one", "another")).toBe(true);
  memory.noteOver("one");
  expect(memory.isOver("one")).toBe(true);
});

it("writes what the disk did not take with the next fact", () => {
  const memory = openSessionMemory(file);
  rmSync(join(dir, "state"), { recursive: true });
  memory.noteOver("one");
  memory.noteOver("two");
  mkdirSync(join(dir, "state"));
  // A part of the first line.
  writeFileSync(file, '{"session":"on');
  memory.noteOver("three");
  const again = openSessionMemory(file);
  expect(["one", "two", "three"].map((id) => again.isOver(id))).toEqual([true, true, true]);
});

it("keeps a file that does not grow with all sessions that there ever were", () => {
  const memory = openSessionMemory(file, Date.now, 4);
  const names = Array.from({ length: 30 }, (_, at) => String(at));
  for (const name of names) {
    memory.noteAgent(name, "key");
    memory.noteOver(name);
    expect(readFileSync(file, "utf8").split("\n").length).toBeLessThanOrEqual(21);
  }
  const again = openSessionMemory(file);
  expect(names.filter((name) => again.isOver(name)).slice(-4)).toEqual(["26", "27", "28", "29"]);
  expect(again.isAgents("29", "another")).toBe(false);
});
