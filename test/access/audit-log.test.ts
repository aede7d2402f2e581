/** The audit of the submit service: what it keeps, and what shows that it was changed. */

import {
  appendFileSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { openAuditLog, readAuditLog, type AuditEntry } from "../../access/audit-log.ts";

let dir = "";
let file = "";
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "orbweaver-audit-"));
  file = join(dir, "audit.jsonl");
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const entry = (more: Partial<AuditEntry> = {}): AuditEntry => ({
  who: "ada",
  from: "socket",
  act: "submit",
  job: "train-7",
  verdict: "accepted",
  ...more,
});

it("goes on where it was, in a file that its owner alone can read", () => {
  for (let time = 0; time < 3; time += 1) {
    const log = openAuditLog(file, () => 5_000 + time);
    log.add(entry({ job: `train-${String(time)}` }));
    log.close();
  }
  const { lines, brokenAt } = readAuditLog(file);
  expect(brokenAt).toBeUndefined();
  expect(lines.map(({ seq, job, atMs }) => [seq, job, atMs])).toEqual([
    [1, "train-0", 5_000],
    [2, "train-1", 5_001],
    [3, "train-2", 5_002],
  ]);
  expect(statSync(file).mode & 0o777).toBe(0o600);
});

it.each([
  ["changed", (texts: string[]) => texts.map((text) => text.replace("train-1", "train-9")), 2],
  ["left out", (texts: string[]) => texts.filter((_text, at) => at !== 1), 2],
  ["put in", (texts: string[]) => [texts[0] ?? "", texts[0] ?? "", ...texts.slice(1)], 2],
  ["written over", (texts: string[]) => ["junk", ...texts.slice(1)], 1],
])("a line that was %s shows", (_how, change, line) => {
  const log = openAuditLog(file);
  for (let at = 0; at < 4; at += 1) log.add(entry({ job: `train-${String(at)}` }));
  log.close();
  const texts = readFileSync(file, "utf8").trimEnd().split("\n");
  writeFileSync(file, `${change(texts).join("\n")}\n`);
  expect(readAuditLog(file).brokenAt).toBe(line);
});

it("a line that a crash cut off is told, and the log goes on", () => {
  openAuditLog(file).add(entry());
  appendFileSync(file, '{"seq":2,"atM');
  const log = openAuditLog(file);
  log.add(entry({ job: "train-8" }));
  log.close();
  const { lines, brokenAt } = readAuditLog(file);
  expect(brokenAt).toBe(2);
  expect(lines.map(({ who }) => who)).toEqual(["ada", "audit", "ada"]);
});

it("refusals of one sender are counted beyond twenty a minute; others and orders are written", () => {
  let nowMs = 0;
  const log = openAuditLog(file, () => nowMs);
  const refused = entry({ who: "eve", verdict: "refused", why: "no" });
  for (let at = 0; at < 1_000; at += 1) log.add(refused);
  log.add(entry({ who: "bob", verdict: "refused" }));
  for (let at = 0; at < 30; at += 1) log.add(entry());
  nowMs += 60_000;
  log.add(entry({ who: "bob", verdict: "refused" }));
  const { lines } = readAuditLog(file);
  const ofEve = lines.filter(({ who }) => who === "eve");
  expect(ofEve).toHaveLength(21);
  expect(ofEve.at(-1)?.more).toBe(979);
  expect(lines).toHaveLength(21 + 1 + 30 + 1);
  log.close();
  expect(readAuditLog(file).lines).toHaveLength(lines.length);
});

it("no refusal goes without being counted: not at the end, and not when there are too many senders to remember", () => {
  const log = openAuditLog(file, () => 1);
  for (let at = 0; at < 25; at += 1) log.add(entry({ who: "eve", verdict: "refused" }));
  for (let at = 0; at < 10_000; at += 1)
    log.add(entry({ from: `::${String(at)}`, verdict: "refused" }));
  for (let at = 0; at < 22; at += 1) log.add(entry({ who: "mallory", verdict: "refused" }));
  log.close();
  const { lines, brokenAt } = readAuditLog(file);
  const more = lines.flatMap((line) => (line.more === undefined ? [] : [[line.who, line.more]]));
  expect([more, brokenAt]).toEqual([
    [
      ["eve", 4],
      ["mallory", 1],
    ],
    undefined,
  ]);
});

/** A disk that takes so many bytes at the next writes, and none where it is full. */
const disk =
  (takes: number[]) =>
  (handle: number, bytes: Buffer, from: number): number => {
    const most = takes.shift() ?? bytes.length;
    if (most === 0) throw new Error("ENOSPC");
    return writeSync(handle, bytes, from, Math.min(most, bytes.length - from));
  };

it("a line that the disk takes in parts is whole", () => {
  const log = openAuditLog(file, Date.now, disk([1, 30, 7]));
  log.add(entry());
  log.add(entry());
  log.close();
  expect(readAuditLog(file)).toMatchObject({
    brokenAt: undefined,
    lines: [{ seq: 1 }, { seq: 2 }],
  });
});

it("a line that the disk took a part of shows, and the next one counts on", () => {
  const takes: number[] = [];
  const log = openAuditLog(file, Date.now, disk(takes));
  log.add(entry());
  takes.push(20, 0);
  expect(() => log.add(entry({ job: "train-8" }))).toThrow("ENOSPC");
  log.add(entry({ job: "train-9" }));
  log.close();
  const { lines, brokenAt } = readAuditLog(file);
  expect(brokenAt).toBe(2);
  expect(lines.map(({ seq, job }) => [seq, job])).toEqual([
    [1, "train-7"],
    [2, "train-9"],
  ]);
});
