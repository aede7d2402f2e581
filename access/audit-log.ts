/**
 * @file What was asked of the submit service, by whom, from where, and how it was answered: one line of JSON each, in an append-only private file.
 *
 * Each line has the hash of the one before, so a line that is changed, left out or put in between shows; one that is cut off at the end does not, which
 * is why `orbweaver audit` prints the last hash to be kept elsewhere. A file that was damaged is never mended: the next line says so and goes on.
 * Refusals of one sender are counted, not written, beyond a number in a minute, so that nobody fills the disk. The last of them is written with their
 * number once the minute is over, when somebody asks next, and at the end.
 */

import { createHash } from "node:crypto";
import {
  closeSync,
  fstatSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  readSync,
  writeSync,
} from "node:fs";
import { dirname } from "node:path";
import { z } from "zod";
import { PRIVATE_DIR, PRIVATE_FILE } from "./private-files.ts";

const lineSchema = z.object({
  seq: z.number().int(),
  atMs: z.number(),
  /** A principal's name, or what a request that nobody proved came with. */
  who: z.string(),
  /** How the principal was known, and where the request came from. */
  from: z.string(),
  /** As in `submit`, `cancel`; for people and for `--json`. */
  act: z.string(),
  job: z.string().exactOptional(),
  verdict: z.enum(["accepted", "refused", "failed"]),
  why: z.string().exactOptional(),
  /** Refusals of this sender that were counted before this one, since its last line. */
  more: z.number().int().exactOptional(),
  former: z.string(),
  hash: z.string(),
});
export type AuditLine = z.output<typeof lineSchema>;
export type AuditEntry = Omit<AuditLine, "seq" | "atMs" | "former" | "hash" | "more">;

export interface AuditLog {
  readonly add: (entry: AuditEntry) => void;
  readonly close: () => void;
}

/** Of refusals, in its minute. */
interface Sender {
  sinceMs: number;
  written: number;
  /** Counted, and not written. */
  left: number;
  last?: AuditEntry;
}

const FIRST = "0".repeat(43);
const MAX_TEXT = 500;
const REFUSALS_A_MINUTE = 20;
const MOST_SENDERS = 10_000;
const MINUTE_MS = 60_000;
const TAIL_BYTES = 65_536;

/** `put` writes bytes from a place on, and returns how many. */
export function openAuditLog(
  file: string,
  nowMs: () => number = Date.now,
  put: (handle: number, bytes: Buffer, from: number) => number = writeSync,
): AuditLog {
  mkdirSync(dirname(file), { recursive: true, mode: PRIVATE_DIR });
  const handle = openSync(file, "a+", PRIVATE_FILE);
  const last = lastLine(handle);
  let seq = last.line?.seq ?? 0;
  let former = last.line?.hash ?? FIRST;
  const senders = new Map<string, Sender>();
  /** Those of whom some refusals were counted and not written. */
  const counted = new Set<Sender>();

  /** A line that the disk took only a part of is ended before the next. */
  let isTorn = last.isDamaged;
  function append(text: string): void {
    const bytes = Buffer.from(isTorn ? `\n${text}` : text);
    isTorn = true;
    for (let at = 0; at < bytes.length;) at += put(handle, bytes, at);
    isTorn = false;
  }

  function write(entry: AuditEntry, more: number): void {
    const line = {
      seq: seq + 1,
      atMs: nowMs(),
      who: cut(entry.who),
      from: cut(entry.from),
      act: cut(entry.act),
      ...(entry.job !== undefined && { job: cut(entry.job) }),
      verdict: entry.verdict,
      ...(entry.why !== undefined && { why: cut(entry.why) }),
      ...(more > 0 && { more }),
      former,
    };
    const hash = hashOf(line);
    append(`${JSON.stringify({ ...line, hash })}\n`);
    seq += 1;
    former = hash;
    // An order that was carried out is on the disk before its answer.
    if (entry.verdict !== "refused") fsyncSync(handle);
  }
  if (last.isDamaged) {
    write(
      {
        who: "audit",
        from: "audit",
        act: "open",
        verdict: "failed",
        why: "the last line of the former file is damaged",
      },
      0,
    );
  }
  function writeCounted(isWanted: (sender: Sender) => boolean): void {
    for (const sender of counted) {
      const { last, left } = sender;
      if (last === undefined || !isWanted(sender)) continue;
      write(last, left - 1);
      counted.delete(sender);
      sender.left = 0;
    }
  }
  return {
    add(entry) {
      const now = nowMs();
      writeCounted(({ sinceMs }) => now - sinceMs >= MINUTE_MS);
      if (entry.verdict !== "refused") return write(entry, 0);
      const key = JSON.stringify([entry.who, entry.from]);
      if (senders.size >= MOST_SENDERS) {
        writeCounted(() => true);
        senders.clear();
      }
      const known = senders.get(key) ?? { sinceMs: now, written: 0, left: 0 };
      senders.set(key, known);
      if (now - known.sinceMs >= MINUTE_MS) Object.assign(known, { sinceMs: now, written: 0 });
      if (known.written >= REFUSALS_A_MINUTE) {
        known.left += 1;
        known.last = entry;
        counted.add(known);
        return;
      }
      known.written += 1;
      write(entry, 0);
    },
    close() {
      try {
        writeCounted(() => true);
      } finally {
        closeSync(handle);
      }
    },
  };
}

export interface AuditRead {
  readonly lines: readonly AuditLine[];
  /** The first line, counted from 1, that is not what followed its predecessor; undefined when the chain is whole. */
  readonly brokenAt: number | undefined;
}

/** Throws the system's error where the file cannot be read. */
export function readAuditLog(file: string): AuditRead {
  const texts = readFileSync(file, "utf8").split("\n");
  let former = FIRST;
  let brokenAt: number | undefined;
  const lines: AuditLine[] = [];
  for (const [at, text] of texts.entries()) {
    if (text === "") continue;
    const line = lineOf(text);
    const isNext = line !== undefined && line.former === former && isWhole(line);
    if (!isNext) brokenAt ??= at + 1;
    if (line === undefined) continue;
    former = line.hash;
    lines.push(line);
  }
  return { lines, brokenAt };
}

const isWhole = ({ hash, ...line }: AuditLine): boolean => hashOf(line) === hash;

/** In the order in which `write` names its members. */
function hashOf(line: Omit<AuditLine, "hash">): string {
  const { seq, atMs, who, from, act, job, verdict, why, more, former } = line;
  const members = [
    seq,
    atMs,
    who,
    from,
    act,
    job ?? null,
    verdict,
    why ?? null,
    more ?? null,
    former,
  ];
  return createHash("sha256").update(JSON.stringify(members)).digest("base64url");
}

function lineOf(text: string): AuditLine | undefined {
  try {
    return lineSchema.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}

function lastLine(handle: number): { readonly line?: AuditLine; readonly isDamaged: boolean } {
  const { size } = fstatSync(handle);
  if (size === 0) return { isDamaged: false };
  const length = Math.min(size, TAIL_BYTES);
  const buffer = Buffer.alloc(length);
  readSync(handle, buffer, 0, length, size - length);
  const text = buffer.toString("utf8");
  const line = lineOf(text.trimEnd().split("\n").at(-1) ?? "");
  return {
    ...(line !== undefined && { line }),
    isDamaged: line === undefined || !text.endsWith("\n"),
  };
}

const cut = (text: string): string =>
  text.length <= MAX_TEXT ? text : `${text.slice(0, MAX_TEXT)}…`;
