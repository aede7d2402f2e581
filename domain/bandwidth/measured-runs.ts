/**
 * @file Reads runs of nccl-tests as measurements of GPU sets: the set and its GB/s, or the reason why a run is not usable.
 *
 * The figure is taken at the message size nearest to 16 MiB, the size of BandPilot's tables. Only all_reduce, all_gather and
 * reduce_scatter count: their bus bandwidths are made comparable by nccl-tests; sendrecv and alltoall load other links.
 * A run that does not list all its ranks is not usable, because the GPUs that it measured are unknown.
 */

import { maskOf } from "../../lib/bits.ts";
import type { BandwidthTable } from "./bandwidth-table.ts";
import { harmless } from "../values/file-problem.ts";
import { busBwNearGBs, type NcclRank, type NcclRun } from "./nccl-run.ts";
import type { Reading } from "../values/quantity.ts";
import { refused } from "../file/schema-leaf.ts";

const MESSAGE_BYTES = 16 * 1024 * 1024;
/** The width of a mask. */
const MAX_GPU_INDEX = 29;
const COUNTED: ReadonlySet<string> = new Set(["all_reduce", "all_gather", "reduce_scatter"]);

export interface MeasuredRun {
  readonly line: number;
  readonly op: string;
  /** GPU indices by the host's name in the log, in order of appearance. */
  readonly gpusByHost: ReadonlyMap<string, readonly number[]>;
  readonly gbs: number;
}

/** The usable runs; refused with the first run's reason when there is none. */
export function measuredRuns(runs: readonly NcclRun[]): Reading<readonly MeasuredRun[]> {
  const readings = runs.map(measuredRun);
  const value = readings.flatMap((reading) => (reading.kind === "read" ? [reading.value] : []));
  const [first] = readings;
  if (value.length > 0 || first === undefined || first.kind === "read") {
    return { kind: "read", value };
  }
  return first;
}

/** e.g. `the run from line 3 spans 2 hosts (a, b), which is a measurement of the cluster, not of one host`. */
export function spanText({ line, gpusByHost }: MeasuredRun): string {
  return `the run from line ${line} spans ${gpusByHost.size} hosts (${namesText([...gpusByHost.keys()])}), which is a measurement of the cluster, not of one host`;
}

/** The first ten of the names. */
export function namesText(names: readonly string[]): string {
  const more = names.length > 10 ? `, and ${names.length - 10} more` : "";
  return `${names.slice(0, 10).map(harmless).join(", ")}${more}`;
}

/** A table of the one set that the run measured. */
export function tableOfRun({ gpusByHost, gbs, op }: MeasuredRun): BandwidthTable {
  const hosts = [...gpusByHost.keys()];
  const masks = [...gpusByHost.values()].map(maskOf);
  return { hosts, intraHost: hosts.map(() => null), sets: [{ masks, gbs: [gbs] }], op };
}

function measuredRun(run: NcclRun): Reading<MeasuredRun> {
  const of = `the run from line ${run.line}`;
  const { ranks, line } = run;
  if (ranks.length === 0) {
    return refused(
      `${of} names no hosts: its rank lines are missing, and nobody can say whose GPUs it measured`,
      "give the whole log with its lines `# Rank … on <host> device …`",
    );
  }
  const count = (ranks.at(-1)?.rank ?? 0) + 1;
  if (run.isElided || count !== ranks.length) {
    const found = run.isElided
      ? "leaves lines out with `...`"
      : `names ranks up to ${count - 1}, but lists only ${ranks.length} of them`;
    return refused(`${of} ${found}, so not all its GPUs are known`, "give the whole log");
  }
  const op = collectiveOf(run);
  if (op === undefined) {
    const found = `${of} does not say which collective it is`;
    return refused(found, "say it in the file's name, e.g. all_gather.txt");
  }
  if (!COUNTED.has(op)) {
    return refused(
      `${of} is ${harmless(op)}, whose bandwidth is not that of an all-reduce`,
      "give a log of all_reduce, all_gather or reduce_scatter",
    );
  }
  const odd = oddRanks(ranks);
  if (odd !== undefined) return refused(`${of} ${odd}`, "give a run of one process for each GPU");
  const gbs = busBwNearGBs(run, MESSAGE_BYTES);
  if (gbs === undefined || gbs <= 0) {
    return refused(`${of} has no bandwidth above 0`, "run it with messages around 16 MiB");
  }
  const gpusByHost = new Map<string, number[]>();
  for (const { host, device } of ranks) {
    gpusByHost.set(host, [...(gpusByHost.get(host) ?? []), device]);
  }
  return { kind: "read", value: { line, op, gpusByHost, gbs } };
}

/** Where the log names no collective, a reduction with a result on every rank counts as all_reduce. */
function collectiveOf({ op, rows }: NcclRun): string | undefined {
  if (op !== "unknown") return op;
  return rows.some((row) => row.redop !== undefined && row.root === undefined)
    ? "all_reduce"
    : undefined;
}

function oddRanks(ranks: readonly NcclRank[]): string | undefined {
  if (ranks.length < 2) return "is of one GPU, which does not communicate";
  if (new Set(ranks.map(({ group }) => group)).size > 1) return "has several groups at once";
  const seen = new Set<string>();
  for (const { host, device } of ranks) {
    const gpu = `GPU ${device} of ${harmless(host)}`;
    if (device > MAX_GPU_INDEX) return `measures ${gpu}; a host has at most ${MAX_GPU_INDEX + 1}`;
    if (seen.has(gpu)) return `has two ranks on ${gpu}`;
    seen.add(gpu);
  }
  return undefined;
}
