/**
 * @file What a submit service keeps of sessions over its restarts: which agent came first with a ticket, and which sessions are over.
 *
 * Whoever reads histories has the tickets of sessions. A service that had forgotten would take the first who comes with one for the host's agent, while that one
 * dials anew, and would take both ends of a session that is over. A line of JSON for each fact, in a private file. A session is a day long at most, and its lines are left
 * out when the file is read after that; one with many lines is written anew.
 */

import { createHash } from "node:crypto";
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  writeFileSync,
} from "node:fs";

import { dirname } from "node:path";
import { z } from "zod";
import { PRIVATE_DIR, PRIVATE_FILE } from "../access/private-files.ts";
import { LONGEST_SESSION_MS } from "../access/session-ticket.ts";
import { parsedJson } from "../lib/parsed-json.ts";

export interface SessionMemory {
  /** Whether this key is the one with which the session's agent came first; true where none has come. */
  readonly isAgents: (session: string, key: string) => boolean;
  /** Throws the system's error where it cannot be written. */
  readonly noteAgent: (session: string, key: string) => void;
  readonly isOver: (session: string) => boolean;
  /** Never throws: what the disk does not take now is written with the next fact. */
  readonly noteOver: (session: string) => void;
}

const factSchema = z.object({
  session: z.string(),
  /** Hash of the agent's key; absent: the session is over. */
  agent: z.string().exactOptional(),
  atMs: z.number(),
});
type Fact = z.output<typeof factSchema>;

/** Of each kind, the newest. */
const MOST_KEPT = 10_000;
/** More than 2, for both kinds: the file is written anew seldom, and does not grow with the age of the service. */
const LINES_PER_KEPT = 5;

export function openSessionMemory(
  file: string,
  nowMs: () => number = Date.now,
  mostKept = MOST_KEPT,
): SessionMemory {
  const agents = new Map<string, Fact>();
  const over = new Map<string, Fact>();
  const keep = (fact: Fact): void => {
    const kind = fact.agent === undefined ? over : agents;
    kind.set(fact.session, fact);
    const [oldest] = kind.keys();
    if (kind.size > mostKept && oldest !== undefined) kind.delete(oldest);
  };
  for (const fact of factsIn(file)) if (nowMs() - fact.atMs <= LONGEST_SESSION_MS) keep(fact);
  const kept = (): readonly Fact[] => [...agents.values(), ...over.values()];
  rewrite(file, kept());

  let unwritten = "";
  /** Of the file. */
  let lines = agents.size + over.size;
  const write = (fact: Fact): void => {
    try {
      if (lines >= LINES_PER_KEPT * mostKept) {
        rewrite(file, kept());
        lines = agents.size + over.size;
      }
      appendFileSync(file, unwritten + lineOf(fact), { mode: PRIVATE_FILE, flush: true });
    } catch (error) {
      // A full disk may have taken a part of a line.
      if (unwritten === "") unwritten = "\n";
      throw error;
    }
    unwritten = "";
    lines += 1;
  };
  return {
    isAgents: (session, key) => {
      const first = agents.get(session)?.agent;
      return first === undefined || first === hashOf(key);
    },
    noteAgent(session, key) {
      if (agents.has(session)) return;
      const fact = { session, agent: hashOf(key), atMs: nowMs() };
      // First, so that one that could not be written down is no agent at its second try either.
      write(fact);
      keep(fact);
    },
    isOver: (session) => over.has(session),
    noteOver(session) {
      const fact = { session, atMs: nowMs() };
      keep(fact);
      try {
        write(fact);
      } catch {
        unwritten += lineOf(fact);
      }
    },
  };
}

const hashOf = (key: string): string => createHash("sha256").update(key).digest("base64url");

const lineOf = (fact: Fact): string => `${JSON.stringify(fact)}\n`;

function factsIn(file: string): readonly Fact[] {
  if (!existsSync(file)) return [];
  const lines = readFileSync(file, "utf8").split("\n");
  // A crash of the machine may have left a part of the last one.
  return lines.flatMap((line) => factSchema.safeParse(parsedJson(line)).data ?? []);
}

function rewrite(file: string, facts: readonly Fact[]): void {
  mkdirSync(dirname(file), { recursive: true, mode: PRIVATE_DIR });
  const aside = `${file}.${String(process.pid)}`;
  writeFileSync(aside, facts.map(lineOf).join(""), { mode: PRIVATE_FILE, flush: true });
  renameSync(aside, file);
}
