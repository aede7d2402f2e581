/**
 * @file The jobs of a storm: which kinds, drawn how often, and how each must end when the storm does not interfere with it.
 *
 * Runs are short, so that most jobs see a fault or two and few see many; a few are long enough to be caught by a fence. Some are
 * inference, for which the others may be preempted from their first moment on: how a job ends must not depend on it.
 */

import { join } from "node:path";
import type { JobFile } from "../../domain/job/job-file.ts";
import type { Draw } from "../statistics.ts";
import type { RankOrder } from "./rank.ts";
import { GPUS_PER_HOST, PROBE_CLUSTER, WORK_CLUSTERS, type Site } from "./site.ts";

/** How often each kind is drawn. */
const KINDS = Object.freeze({
  short: 30,
  long: 16,
  gang: 22,
  checkpointing: 8,
  failing: 7,
  retrying: 6,
  held: 5,
  stubborn: 3,
  array: 5,
});
export type JobKind = keyof typeof KINDS | "flood" | "ambushed" | "probe";

/** The only ways in which the storm itself may change the end of a job. */
export type Meddling = "terminated" | "cancelled" | "reset";

export interface StormJob {
  readonly id: string;
  readonly number: number;
  readonly kind: JobKind;
  readonly naturalEnd: "completed" | "failed";
  readonly file: JobFile;
  /** Set by the storm when it asks for it; certain once the server has said so. */
  meddling:
    { readonly how: Meddling; readonly isCertain: boolean; readonly atMs: number } | undefined;
  isHeld: boolean;
  isClosed: boolean;
}

export const FAILING_EXIT_CODE = 7;
const PROBE_MS = 2_000;
/** Every so many short jobs is one that may take what is due to it from those that run. */
const URGENT_EVERY = 3;
/** The witness has addresses for this many tasks. */
const MOST_TASKS = 24;

export function drawKind(draw: Draw): JobKind {
  const all = Object.entries(KINDS) as [JobKind, number][];
  let left = draw.below(all.reduce((sum, [, weight]) => sum + weight, 0));
  for (const [kind, weight] of all) {
    if (left < weight) return kind;
    left -= weight;
  }
  return "short";
}

interface DrawnJob {
  readonly kind: JobKind;
  readonly number: number;
  readonly draw: Draw;
}

export function stormJob(site: Site, drawn: DrawnJob): StormJob {
  const { kind, number, draw } = drawn;
  const { gpus, rank } = shapeOf(site, drawn);
  const isFailing = kind === "failing" || kind === "retrying";
  const isUrgent = kind === "short" && number % URGENT_EVERY === 0;
  const order: RankOrder = {
    witness: witnessFile(site),
    hosts: site.hosts,
    gpusPerHost: GPUS_PER_HOST,
    port: site.port,
    job: number,
    exitCode: isFailing ? FAILING_EXIT_CODE : 0,
    ...rank,
  };
  return {
    id: `${kind}-${number}`,
    number,
    kind,
    naturalEnd: kind === "failing" ? "failed" : "completed",
    meddling: undefined,
    isHeld: kind === "held",
    isClosed: false,
    file: {
      name: kind,
      ...(isUrgent ? { class: "inference" as const } : { preemption: { minRuntime: "0s" } }),
      gang: { gpus },
      constraints: { clusters: kind === "probe" ? [PROBE_CLUSTER] : [...WORK_CLUSTERS] },
      run: {
        command: [process.execPath, rankProgram()],
        env: { STORM_RANK: JSON.stringify(order) },
        grace: "1s",
        ...(kind === "checkpointing" && { checkpoint: { signal: "USR1", grace: "2s" } }),
      },
      ...(kind === "retrying" && { retry: { attempts: 2, backoff: "0s" } }),
      ...(kind === "held" && { hold: true }),
      ...(kind === "array" && { array: { count: 4 + draw.below(MOST_TASKS - 3), parallel: 4 } }),
    },
  };
}

function shapeOf(
  site: Site,
  { kind, number, draw }: DrawnJob,
): { readonly gpus: number; readonly rank: Pick<RankOrder, "ms"> & Partial<RankOrder> } {
  const between = (low: number, high: number): number =>
    Math.round(low + draw.unit() * (high - low));
  const few = 1 + draw.below(GPUS_PER_HOST);
  switch (kind) {
    case "short":
    case "failing":
    case "held":
    case "array":
      return { gpus: few, rank: { ms: between(100, 1_000) } };
    case "retrying":
      return {
        gpus: 1,
        rank: { ms: between(100, 800), failOnce: join(site.folder, `failed-${number}`) },
      };
    case "long":
    case "checkpointing":
      return { gpus: few, rank: { ms: between(4_000, 12_000) } };
    case "gang":
    case "ambushed":
      return { gpus: GPUS_PER_HOST + 1 + draw.below(2), rank: { ms: between(300, 3_000) } };
    case "stubborn":
      return { gpus: 1, rank: { ms: between(2_000, 6_000), isStubborn: true } };
    case "flood":
      // The product keeps 32 MiB of a rank's output.
      return { gpus: 1, rank: { ms: 200, floodMiB: 40 } };
    case "probe":
      return { gpus: 1, rank: { ms: PROBE_MS } };
  }
}

export const witnessFile = (site: Site): string => join(site.folder, "witness.jsonl");

/** Node runs the compiled program; from the sources, what the last build made. */
function rankProgram(): string {
  return new URL(
    import.meta.url.endsWith(".ts") ? "../../dist/bench/storm/rank.js" : "./rank.js",
    import.meta.url,
  ).pathname;
}
