/**
 * @file The policy file that the plugin reads: text, line by line, with fixed maxima and a checksum; writer and parser.
 *
 * docs/collectives-format.md is the specification. One policy has exactly one text, so that ranks can compare checksums: the parser refuses
 * everything that the writer would not have written (leading zeros, other blanks, another order of rows). A torn file lacks its last line or
 * fails the checksum. Every maximum is small, so that a reader in C needs no allocation. Cost: O(characters).
 */

import { quotedLine, refuse, type Problem, type Refused } from "../domain/values/problem.ts";
import { crc32Text } from "../lib/crc32.ts";
import { COLLECTIVES, isArm, isCollective } from "../domain/bandwidth/collective-arm.ts";
import type { ArmRun, Policy, PolicyRow, PolicySection } from "./policy.ts";

export const POLICY_LIMITS = Object.freeze({
  /** Of the whole file. */
  bytes: 16_384,
  /** With its line feed. */
  lineBytes: 512,
  sections: 8,
  /** Of all sections together. */
  rows: 64,
  /** Of one row. */
  runs: 32,
  /** Of one run of a schedule. */
  count: 4_096,
  stride: 65_536,
  topologyChars: 63,
  nodes: 65_536,
  ranks: 1_048_576,
});

export interface ParsedPolicy {
  readonly kind: "parsed";
  readonly policy: Policy;
}

const MAGIC = "orbweaver-collectives 1";
const NUMBER = /^(0|[1-9]\d{0,15})$/;
const TOPOLOGY = /^[A-Za-z0-9._:/@+-]+$/;
const ASCII_LINE = /^[\x20-\x7e]*$/;

/** Throws when the policy breaks a limit: it was made here, so that is a bug. */
export function policyText(policy: Policy): string {
  const lines = [
    MAGIC,
    `version ${String(policy.version)}`,
    `from ${String(policy.fromCall)}`,
    `overlap ${policy.hasOverlap ? "yes" : "no"}`,
    ...policy.sections.flatMap(({ topology, nodes, ranks, rows }) => [
      `topology ${topology} nodes ${String(nodes)} ranks ${String(ranks)}`,
      ...rows.map(rowText),
    ]),
  ];
  const body = `${lines.join("\n")}\n`;
  const text = `${body}end ${crc32Text(body)}\n`;
  const parsed = parsePolicy(text, "policy");
  if (parsed.kind === "refused")
    throw new Error(`a policy cannot be written: ${parsed.problems[0]?.message ?? "unknown"}`);
  return text;
}

function rowText({ collective, minBytes, maxBytes, arm, explore }: PolicyRow): string {
  const row = `${collective} ${String(minBytes)} ${String(maxBytes)} ${arm}`;
  if (explore === undefined) return row;
  const runs = explore.runs.map((run) => `${run.arm}*${String(run.count)}`);
  return `${row} explore ${String(explore.stride)} ${runs.join(" ")}`;
}

export function parsePolicy(text: string, source: string): ParsedPolicy | Refused {
  const broken = brokenFrame(text);
  if (broken !== undefined) return refuse(source, [broken]);
  const lines = text.split("\n").slice(0, -2);
  const reader: Reader = { lines, problems: [], sections: [] };
  const version = headNumber(reader, 1, "version");
  const fromCall = headNumber(reader, 2, "from");
  const overlap = lines[3];
  if (overlap !== "overlap yes" && overlap !== "overlap no")
    complain(reader, 3, "write `overlap yes` or `overlap no`");
  if (version === 0) complain(reader, 1, "a version is at least 1; 0 means no policy");
  for (let at = 4; at < lines.length; at += 1) readBodyLine(reader, at);
  checkWhole(reader);
  if (reader.problems.length > 0) return refuse(source, reader.problems);
  const sections: readonly PolicySection[] = reader.sections;
  return {
    kind: "parsed",
    policy: { version, fromCall, hasOverlap: overlap === "overlap yes", sections },
  };
}

/** Checks size, characters, the first line, and the last line with its checksum: a torn file fails here. */
function brokenFrame(text: string): Problem | undefined {
  const remedy = "take the file anew from who wrote it; it is torn, or no policy file";
  const problem = (line: number, message: string): Problem => ({ line, message, remedy });
  if (text.length > POLICY_LIMITS.bytes)
    return problem(
      1,
      `${String(text.length)} bytes; a policy has at most ${String(POLICY_LIMITS.bytes)}`,
    );
  const lines = text.split("\n");
  const wrong = lines.findIndex(
    (line) => !ASCII_LINE.test(line) || line.length + 1 > POLICY_LIMITS.lineBytes,
  );
  if (wrong >= 0)
    return problem(
      wrong + 1,
      `the line is longer than ${String(POLICY_LIMITS.lineBytes)} bytes or not printable ASCII`,
    );
  if (lines[0] !== MAGIC) return problem(1, `the first line is not \`${MAGIC}\``);
  const last = lines.at(-2) ?? "";
  if (lines.at(-1) !== "" || !last.startsWith("end "))
    return problem(lines.length, "the last line is not `end` with a checksum");
  const body = text.slice(0, text.length - last.length - 1);
  if (last !== `end ${crc32Text(body)}`)
    return problem(lines.length - 1, `the checksum is ${crc32Text(body)}, the file says ${last}`);
  return undefined;
}

interface Reader {
  /** Without the last one, which holds the checksum. */
  readonly lines: readonly string[];
  readonly problems: Problem[];
  readonly sections: { topology: string; nodes: number; ranks: number; rows: PolicyRow[] }[];
}

function complain({ lines, problems }: Reader, at: number, remedy: string): void {
  problems.push({ line: at + 1, message: `cannot read ${quotedLine(lines[at] ?? "")}`, remedy });
}

function headNumber(reader: Reader, at: number, word: string): number {
  const line = reader.lines[at];
  const [name, digits, ...rest] = (line ?? "").split(" ");
  const value = numberIn(digits);
  if (name === word && value !== undefined && rest.length === 0) return value;
  complain(reader, at, `write \`${word} NUMBER\``);
  return 0;
}

function numberIn(
  text: string | undefined,
  least = 0,
  most: number = Number.MAX_SAFE_INTEGER,
): number | undefined {
  if (text === undefined || !NUMBER.test(text)) return undefined;
  const value = Number(text);
  return value >= least && value <= most ? value : undefined;
}

function readBodyLine(reader: Reader, at: number): void {
  const line = reader.lines[at] ?? "";
  if (line.startsWith("topology ")) {
    const section = sectionIn(line);
    if (section !== undefined) reader.sections.push({ ...section, rows: [] });
    else complain(reader, at, "write `topology KEY nodes N ranks R`");
    return;
  }
  const row = rowIn(line);
  const section = reader.sections.at(-1);
  if (row === undefined || section === undefined) {
    complain(reader, at, "write `COLLECTIVE MIN MAX ARM` under a `topology` line");
    return;
  }
  const before = section.rows.at(-1);
  if (before !== undefined && !isAfter(row, before))
    complain(reader, at, "rows ascend by collective and size and do not overlap");
  section.rows.push(row);
}

function sectionIn(line: string): Omit<PolicySection, "rows"> | undefined {
  const [, topology = "", nodesWord, nodesText, ranksWord, ranksText, ...rest] = line.split(" ");
  const nodes = numberIn(nodesText, 1, POLICY_LIMITS.nodes);
  const ranks = numberIn(ranksText, 1, POLICY_LIMITS.ranks);
  const isKey = TOPOLOGY.test(topology) && topology.length <= POLICY_LIMITS.topologyChars;
  if (!isKey || nodesWord !== "nodes" || ranksWord !== "ranks" || rest.length > 0) return undefined;
  return nodes === undefined || ranks === undefined ? undefined : { topology, nodes, ranks };
}

function rowIn(line: string): PolicyRow | undefined {
  const [collective = "", minText, maxText, arm = "", word, strideText, ...runTexts] =
    line.split(" ");
  const minBytes = numberIn(minText);
  const maxBytes = numberIn(maxText, minBytes);
  if (!isCollective(collective) || !isArm(arm)) return undefined;
  if (minBytes === undefined || maxBytes === undefined) return undefined;
  const row = { collective, minBytes, maxBytes, arm };
  if (word === undefined) return row;
  const stride = numberIn(strideText, 1, POLICY_LIMITS.stride);
  const runs = runTexts.flatMap((text) => runIn(text) ?? []);
  const isWhole =
    runs.length === runTexts.length && runs.length > 0 && runs.length <= POLICY_LIMITS.runs;
  if (word !== "explore" || stride === undefined || !isWhole) return undefined;
  return { ...row, explore: { stride, runs } };
}

function runIn(text: string): ArmRun | undefined {
  const [arm = "", countText, ...rest] = text.split("*");
  const count = numberIn(countText, 1, POLICY_LIMITS.count);
  return isArm(arm) && count !== undefined && rest.length === 0 ? { arm, count } : undefined;
}

function isAfter(row: PolicyRow, before: PolicyRow): boolean {
  const order = COLLECTIVES.indexOf(row.collective) - COLLECTIVES.indexOf(before.collective);
  return order > 0 || (order === 0 && row.minBytes > before.maxBytes);
}

function checkWhole(reader: Reader): void {
  const { sections } = reader;
  const rows = sections.reduce((sum, section) => sum + section.rows.length, 0);
  const shapes = new Set(sections.map(({ nodes, ranks }) => `${String(nodes)}/${String(ranks)}`));
  const wrong =
    sections.length > POLICY_LIMITS.sections || rows > POLICY_LIMITS.rows
      ? `${String(sections.length)} sections with ${String(rows)} rows are too many`
      : shapes.size < sections.length
        ? "two sections are for the same shape of communicator"
        : undefined;
  if (wrong !== undefined)
    reader.problems.push({
      line: 5,
      message: wrong,
      remedy: `at most ${String(POLICY_LIMITS.sections)} sections of different shapes and ${String(POLICY_LIMITS.rows)} rows`,
    });
}
