/**
 * @file The keys of a job file that make it a service: how many replicas it has at least and at most, and when it may have none.
 *
 * A service's file is that of one replica with these keys under `serve`. `orbweaver serve replicas FILE` takes them out and submits each replica as a
 * job of its own, so no job has them: one that is submitted with them is refused.
 */

import { shown } from "../values/file-problem.ts";
import { problemAt, valueAt, type SchemaProblem } from "../file/schema-problems.ts";

export interface ReplicaRule {
  readonly min: number;
  readonly max: number;
  /** Without a request for so long there may be none; absent: never fewer than `min`. */
  readonly idleMs?: number;
}

export interface ReplicaFile {
  readonly min?: number | undefined;
  readonly max?: number | undefined;
  /** Milliseconds. */
  readonly scaleToZero?: number | undefined;
}

const KEYS = ["min", "max", "scaleToZero"] as const;

/** Of a job, which has none of the keys. */
export function replicaProblems(file: unknown): SchemaProblem[] {
  return KEYS.filter((key) => valueAt(file, ["serve", key]) !== undefined).map((key) =>
    problemAt(file, ["serve", key], {
      message: "it is of a service, which keeps several jobs, not of one job",
      remedy: "start the service with orbweaver serve replicas FILE, or leave it out",
    }),
  );
}

/** The file without those keys, and with nothing empty left behind. */
export function withoutReplicaKeys(file: unknown): unknown {
  if (typeof file !== "object" || file === null || Array.isArray(file)) return file;
  const serve = valueAt(file, ["serve"]);
  if (typeof serve !== "object" || serve === null || Array.isArray(serve)) return file;
  const rest = Object.entries(serve).filter(([key]) => !KEYS.some((each) => each === key));
  const others = Object.entries(file).filter(([key]) => key !== "serve");
  return Object.fromEntries([
    ...others,
    ...(rest.length > 0 ? [["serve", Object.fromEntries(rest)]] : []),
  ]);
}

/** Problems between the keys; their values have been read. */
export function replicaRule(
  file: unknown,
  { min, max, scaleToZero }: ReplicaFile,
): { readonly rule: ReplicaRule } | { readonly problem: SchemaProblem } {
  const least = min ?? (scaleToZero === undefined ? 1 : 0);
  const most = max ?? Math.max(1, least);
  if (least > most)
    return {
      problem: problemAt(file, ["serve", "min"], {
        message: `${shown(least)} is more than serve.max, ${shown(most)}`,
        remedy: "write a smaller min, or a larger max",
      }),
    };
  if (scaleToZero !== undefined && least > 0)
    return {
      problem: problemAt(file, ["serve", "scaleToZero"], {
        message: `it says nothing with serve.min ${shown(least)}: so many replicas always stay`,
        remedy: "write min: 0, or leave one of them out",
      }),
    };
  if (least === 0 && scaleToZero === undefined)
    return {
      problem: problemAt(file, ["serve", "min"], {
        message: "0 replicas, and nothing says after which time without requests",
        remedy: "write scaleToZero: 30s beside it, or min: 1",
      }),
    };
  return {
    rule: { min: least, max: most, ...(scaleToZero !== undefined && { idleMs: scaleToZero }) },
  };
}
