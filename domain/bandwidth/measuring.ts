/**
 * @file The messages of a measuring run: its order, in its environment, and its readings, one line of output each.
 *
 * The order is JSON in `MEASURING_ORDER`; a reading is a line of standard output that begins with `MARK`, so that it passes through
 * the job's log, whose other lines are for people. The same lines are the file from which an interrupted run goes on, and the
 * file in which the results of a cluster are kept.
 */

import { z } from "zod";
import { COLLECTIVES } from "./message-profile.ts";

export const MEASURE_ENV = "MEASURING_ORDER";
const MARK = "orbweaver-measured ";

const text = z.string().min(1).max(4_096);
const count = z.number().int().nonnegative();
/** Host and mask of each share. */
const shares = z
  .array(z.tuple([text, count.min(1)]))
  .min(1)
  .max(1_000);

const messages = z.object({ collective: z.enum(COLLECTIVES), bytes: count.min(1) });

const order = z.object({
  sets: z.array(z.object({ shares, look: z.string() })).max(100_000),
  /** argv of the nccl-tests program; `-g` is added. */
  program: z.array(text).min(1),
  /** argv that goes before the parts of a run over several hosts, as Open MPI's mpirun takes them. */
  launcher: z.array(text).min(1),
  /** What the program sends; `USUAL_MESSAGES` when absent. */
  messages: messages.exactOptional(),
  /** A set that takes longer has failed. */
  timeoutMs: count.min(1),
  /** Answers from measured tables instead of running a program. */
  standIn: z
    .object({
      intra: text,
      inter: text.exactOptional(),
      /** The name in the tables of each host of the order. */
      names: z.record(text, text),
      seed: z.number().int(),
      /** Standard deviation of a reading as a share of it. */
      noise: z.number().min(0).max(1),
      /** How long a set takes. */
      delayMs: count,
    })
    .exactOptional(),
});

export type MeasuringOrder = z.infer<typeof order>;
export type StandIn = NonNullable<MeasuringOrder["standIn"]>;
export type HostShares = z.infer<typeof shares>;

const reading = z.object({
  shares,
  /** Absent when the set could not be measured; then `problem` says why. */
  gbs: z.number().positive().exactOptional(),
  messages: messages.exactOptional(),
  problem: z.string().exactOptional(),
  /** How long it took, the start of the program included. */
  tookMs: count,
  atMs: count,
});

/** One reading of one set. */
export type MeasuredReading = z.infer<typeof reading>;

/** Throws when the text is no order, because only this product's own command makes orders. */
export function parseOrder(json: string): MeasuringOrder {
  return order.parse(JSON.parse(json));
}

export const readingLine = (each: MeasuredReading): string => `${MARK}${JSON.stringify(each)}`;

/** Undefined for any other line, and for one that was cut off. */
export function parseReadingLine(line: string): MeasuredReading | undefined {
  if (!line.startsWith(MARK)) return undefined;
  try {
    return reading.safeParse(JSON.parse(line.slice(MARK.length))).data;
  } catch {
    return undefined;
  }
}

/** The same text for the same set, whatever the order of its hosts. */
export const sharesKey = (of: HostShares): string =>
  of
    .map(([host, mask]) => `${host}:${String(mask)}`)
    .sort()
    .join(" ");
