/**
 * @file A measuring run: measures the sets of its order one after the other on the GPUs of its lease, and reports each at once.
 *
 * A measuring job runs it once on each host; the host of rank 0 measures, and the others only hold their GPUs. Each reading is
 * written to the job's checkpoint folder and then to standard output as a line, so a killed run resumes: it repeats the lines
 * of its readings and measures the rest. A failed set is recorded with its reason; several failures in a row before any reading
 * fail the run, because then the program is at fault.
 */

import { execFile } from "node:child_process";
import { closeSync, fsyncSync, mkdirSync, openSync, readFileSync, writeSync } from "node:fs";
import { basename, join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import type { BandwidthTable } from "../../domain/bandwidth/bandwidth-table.ts";
import {
  MEASURE_ENV,
  parseOrder,
  parseReadingLine,
  readingLine,
  sharesKey,
  type HostShares,
  type MeasuredReading,
  type MeasuringOrder,
  type StandIn,
} from "../../domain/bandwidth/measuring.ts";
import { USUAL_MESSAGES, type MessageProfile } from "../../domain/bandwidth/message-profile.ts";
import { busBwNearGBs, opOfName } from "../../domain/bandwidth/nccl-run.ts";
import { parseBandpilotCsv } from "../../domain/bandwidth/parse-bandpilot-csv.ts";
import { parseNcclTests } from "../../domain/bandwidth/parse-nccl-tests.ts";
import { problemText } from "../../domain/values/problem.ts";
import {
  drawnGbs,
  ncclTestsText,
  standInGbs,
  type StandInTables,
} from "../../models/bandwidth/stand-in.ts";
import { setCommand } from "./command.ts";
import { doubtfulSets } from "./doubtful.ts";

export interface MeasuringRun {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly write: (line: string) => void;
  readonly nowMs: () => number;
}

/** After this many failures before the first reading, the program is at fault and not a set. */
const HOPELESS = 3;
const MAX_OUTPUT_BYTES = 4 * 1024 * 1024;

/** Throws when nothing can be measured at all. */
export async function runMeasuring(run: MeasuringRun): Promise<void> {
  if ((run.env["NODE_RANK"] ?? "0") !== "0") return;
  const order = parseOrder(run.env[MEASURE_ENV] ?? "{}");
  const book = openBook(run.env["ORBWEAVER_CHECKPOINT_DIR"] ?? ".");
  try {
    for (const reading of book.readings) run.write(readingLine(reading));
    const measure = measurerOf(order, run);
    const desk = { run, book, measure, messages: order.messages };
    await measureAll(order.sets, desk);
    // Twice, so that a doubtful set gets the three readings of which one is the median.
    for (let again = 0; again < 2; again += 1) {
      const unconfirmed = doubtfulSets(order, book.readings);
      await measureAll(unconfirmed, { ...desk, isAgain: true });
    }
  } finally {
    book.close();
  }
}

interface Desk {
  readonly run: MeasuringRun;
  readonly book: Book;
  readonly measure: Measure;
  readonly messages: MessageProfile | undefined;
  /** Repeats former measurements. */
  readonly isAgain?: true;
}

async function measureAll(sets: MeasuringOrder["sets"], desk: Desk): Promise<void> {
  const { run, book, measure, messages, isAgain } = desk;
  for (const { shares } of sets) {
    const former = book.count(shares);
    if (former > 0 && isAgain !== true) continue;
    const atMs = run.nowMs();
    const answer = await measure(shares, former);
    const reading: MeasuredReading = {
      shares,
      ...(answer.kind === "measured" ? { gbs: answer.gbs } : { problem: answer.problem }),
      ...(messages !== undefined && { messages }),
      tookMs: Math.max(0, Math.round(run.nowMs() - atMs)),
      atMs: Math.round(atMs),
    };
    book.add(reading);
    run.write(readingLine(reading));
    const isHopeless = book.readings.every(({ gbs }) => gbs === undefined);
    if (isHopeless && book.readings.length >= HOPELESS && answer.kind === "failed") {
      throw new Error(`no set could be measured: ${answer.problem}`);
    }
  }
}

type Answer =
  | { readonly kind: "measured"; readonly gbs: number }
  | { readonly kind: "failed"; readonly problem: string };
type Measure = (shares: HostShares, reading: number) => Promise<Answer>;

function measurerOf(order: MeasuringOrder, run: MeasuringRun): Measure {
  const { standIn, program, timeoutMs } = order;
  const op = opOfName(basename(program[0] ?? ""));
  const { bytes } = order.messages ?? USUAL_MESSAGES;
  const read = (text: string): Answer => gbsIn(text, op, bytes);
  if (standIn !== undefined) {
    const tables = tablesOf(standIn);
    return async (shares, reading) => {
      await pause(standIn.delayMs);
      const named: HostShares = shares.map(([host, mask]) => [standIn.names[host] ?? host, mask]);
      const gbs = standInGbs(tables, named, bytes);
      if (gbs === undefined) return { kind: "failed", problem: "the tables do not have this set" };
      const drawn = drawnGbs(gbs, shares, { ...standIn, reading });
      return read(ncclTestsText(named, drawn, bytes));
    };
  }
  return async (shares) => {
    const { argv, env } = setCommand(shares, order);
    const [file = "", ...rest] = argv;
    return await new Promise<Answer>((resolve) => {
      const options = {
        env: { ...run.env, ...env },
        timeout: timeoutMs,
        killSignal: "SIGKILL" as const,
        maxBuffer: MAX_OUTPUT_BYTES,
      };
      execFile(file, rest, options, (error, stdout, stderr) => {
        const answer = read(stdout);
        if (answer.kind === "measured" || error === null) resolve(answer);
        else resolve({ kind: "failed", problem: reasonOf(error, stderr) });
      });
    });
  };
}

function gbsIn(text: string, op: string | undefined, bytes: number): Answer {
  const parsed = parseNcclTests(text, { source: "the output", ...(op !== undefined && { op }) });
  if (parsed.kind === "refused") {
    const [problem] = parsed.problems;
    return {
      kind: "failed",
      problem: problem === undefined ? "no output" : problemText(parsed.source, problem),
    };
  }
  const gbs = parsed.runs.flatMap((each) => busBwNearGBs(each, bytes) ?? []).at(-1);
  return gbs === undefined || gbs <= 0
    ? { kind: "failed", problem: "the output has no bandwidth above 0" }
    : { kind: "measured", gbs };
}

function reasonOf(error: Error, stderr: string): string {
  const last = stderr.trim().split("\n").at(-1) ?? "";
  const what =
    "killed" in error && error.killed === true ? "it exceeded its time limit" : error.message;
  return `${what.split("\n")[0] ?? ""}${last === "" ? "" : `: ${last}`}`.slice(0, 300);
}

function tablesOf({ intra, inter }: StandIn): StandInTables {
  const inside = tableIn(intra);
  return inter === undefined ? { intra: inside } : { intra: inside, inter: tableIn(inter) };
}

function tableIn(file: string): BandwidthTable {
  const parsed = parseBandpilotCsv(readFileSync(file, "utf8"), { source: file });
  if (parsed.kind === "parsed") return parsed.table;
  throw new Error(parsed.problems.map((problem) => problemText(file, problem)).join("\n"));
}

interface Book {
  readonly readings: readonly MeasuredReading[];
  readonly count: (shares: HostShares) => number;
  /** On disk when it returns. */
  readonly add: (reading: MeasuredReading) => void;
  readonly close: () => void;
}

/** A kill cut the last line off; a new line keeps the next reading whole. */
function openBook(dir: string): Book {
  mkdirSync(dir, { recursive: true });
  const path = join(dir, "measured.log");
  const file = openSync(path, "a+");
  const text = readFileSync(path, "utf8");
  if (text !== "" && !text.endsWith("\n")) writeSync(file, "\n");
  const readings = text.split("\n").flatMap((line) => parseReadingLine(line) ?? []);
  const counts = new Map<string, number>();
  const note = ({ shares }: MeasuredReading): void => {
    counts.set(sharesKey(shares), (counts.get(sharesKey(shares)) ?? 0) + 1);
  };
  readings.forEach(note);
  return {
    readings,
    count: (shares) => counts.get(sharesKey(shares)) ?? 0,
    add(reading) {
      writeSync(file, `${readingLine(reading)}\n`);
      fsyncSync(file);
      readings.push(reading);
      note(reading);
    },
    close: () => {
      closeSync(file);
    },
  };
}
