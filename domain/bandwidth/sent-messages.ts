/**
 * @file What running jobs were seen to send, and from it what a job sends that says nothing of it.
 *
 * Each job counts as one, however long it ran: its parts are shares of the time that its collectives took, or of their bytes where no times are
 * known. A job is like those of the same tenant and class that have its name; else those that train its model; else, where `LEAST_ALIKE` of them
 * are known, those of its size within a factor of two. The latest `LATEST` of them count. Their dominant messages are of the collective with the
 * largest share, of the size below and above which half of that share lies, rounded to a power of two: one odd size moves it little.
 * Cost: O(records) to open; O(records alike) for the first job of a kind, then O(1).
 */

import type { JobClass } from "../job/job.ts";
import { isFields } from "../../lib/fields.ts";
import { plainModelName } from "../model/model-presets.ts";
import { parseMessageSize } from "../values/dimensions.ts";
import {
  COLLECTIVES,
  messagesText,
  roundMessages,
  USUAL_MESSAGES,
  type MessageProfile,
} from "./message-profile.ts";

/** One collective at one size. */
export interface SentPart extends MessageProfile {
  /** Of all that the job sent, above 0 to 1. */
  readonly share: number;
}

/** By what jobs are alike. */
export interface Sender {
  readonly tenant: string;
  readonly class: JobClass;
  readonly name: string;
  readonly gpus: number;
  /** What it trains, as the job file names it; names that differ in case and punctuation are one. */
  readonly model?: string;
}

/** The record of one job. */
export interface KeptMessages extends Sender {
  /** The id of the job. */
  readonly run: string;
  readonly sent: readonly SentPart[];
  readonly atMs: number;
}

export interface LearnedMessages extends MessageProfile {
  /** How many they were learned from. */
  readonly jobs: number;
  /** Which part of what these jobs sent is of this collective, within a factor of two of this size; 0 to 1. */
  readonly share: number;
}

export type MessagesOf = (sender: Sender) => LearnedMessages | undefined;

/** Older jobs say less of the next one than the latest. */
const LATEST = 8;
/** Jobs that have only their size in common. */
const LEAST_ALIKE = 3;
/** Three collectives in three bands of sizes each. */
export const MOST_PARTS = 9;
const MOST_BYTES = 2 ** 40;

export function openMessages(records: readonly KeptMessages[]): MessagesOf {
  const pools = new Map<string, KeptMessages[]>();
  for (const record of records)
    for (const { key } of poolsOf(record)) {
      const pool = pools.get(key);
      if (pool === undefined) pools.set(key, [record]);
      else pool.push(record);
    }
  const known = new Map<string, LearnedMessages>();
  return (sender) => {
    for (const { key, least } of poolsOf(sender)) {
      const pool = pools.get(key) ?? [];
      if (pool.length < least) continue;
      const learned = known.get(key) ?? dominantOf(pool);
      known.set(key, learned);
      return learned;
    }
    return undefined;
  };
}

/** The narrowest first, each with how many records it takes to count. */
function poolsOf({ tenant, class: jobClass, name, gpus, model }: Sender): readonly {
  readonly key: string;
  readonly least: number;
}[] {
  const keyOf = (...words: readonly string[]): string => [tenant, jobClass, ...words].join("\n");
  const size = String(Math.floor(Math.log2(Math.max(1, gpus))));
  return [
    { key: keyOf("name", name), least: 1 },
    ...(model === undefined ? [] : [{ key: keyOf("model", plainModelName(model)), least: 1 }]),
    { key: keyOf("size", size), least: LEAST_ALIKE },
  ];
}

/** Of one record at least. */
function dominantOf(records: readonly KeptMessages[]): LearnedMessages {
  const latest = [...records].sort((a, b) => b.atMs - a.atMs).slice(0, LATEST);
  const parts = latest.flatMap(({ sent }) => {
    const whole = sum(sent);
    return sent.map((part) => ({ ...part, share: part.share / whole / latest.length }));
  });
  const shareOf = (collective: string): number =>
    sum(parts.filter((part) => part.collective === collective));
  const collective = COLLECTIVES.reduce((most, each) =>
    shareOf(each) > shareOf(most) ? each : most,
  );
  const own = parts
    .filter((part) => part.collective === collective)
    .sort((a, b) => a.bytes - b.bytes);
  const half = sum(own) / 2;
  let below = 0;
  const middle = own.find(({ share }) => (below += share) >= half) ?? own[0];
  const { bytes } = roundMessages({ collective, bytes: middle?.bytes ?? 1 });
  const near = own.filter((part) => part.bytes >= bytes / 2 && part.bytes <= bytes * 2);
  return { collective, bytes, jobs: latest.length, share: sum(near) };
}

const sum = (parts: readonly Pick<SentPart, "share">[]): number =>
  parts.reduce((total, { share }) => total + share, 0);

/** Undefined for what no job can have sent. */
export function readSentParts(value: unknown): readonly SentPart[] | undefined {
  if (!Array.isArray(value) || value.length === 0 || value.length > MOST_PARTS) return undefined;
  const parts = value.flatMap((part: unknown): readonly SentPart[] => {
    if (!isFields(part)) return [];
    const { bytes, share } = part;
    const collective = COLLECTIVES.find((each) => each === part["collective"]);
    const isPart =
      collective !== undefined &&
      typeof bytes === "number" &&
      bytes >= 1 &&
      bytes <= MOST_BYTES &&
      typeof share === "number" &&
      share > 0 &&
      share <= 1;
    return isPart ? [{ collective, bytes, share }] : [];
  });
  return parts.length === value.length ? parts : undefined;
}

/** `v7 at 256 MiB, learned from 5 jobs (92 %)`: the version that a note names says whose messages its answers are for. */
export function versionFor(version: string, learned: LearnedMessages): string {
  const at = ` at ${messagesText(learned)}`;
  const { jobs, share } = learned;
  const from = `learned from ${String(jobs)} ${jobs === 1 ? "job" : "jobs"}`;
  return `${version.endsWith(at) ? version : version + at}, ${from} (${(100 * share).toFixed(0)} %)`;
}

const LEARNED = / at ([^,]+?)(?: ([a-z_]+))?, learned from (\d+) jobs? \((\d+) %\)$/;

/** For which learned messages the GPUs of a note were chosen; undefined where the job says its own, or nothing was learned. */
export function learnedIn(model: string | undefined): LearnedMessages | undefined {
  const [, size, name = USUAL_MESSAGES.collective, jobs, percent] = LEARNED.exec(model ?? "") ?? [];
  const bytes = parseMessageSize(size);
  const collective = COLLECTIVES.find((each) => each === name);
  if (bytes.kind !== "read" || collective === undefined) return undefined;
  return { collective, bytes: bytes.value, jobs: Number(jobs), share: Number(percent) / 100 };
}
