/**
 * @file The rows of a policy from the evidence of one kind of communicator: our online tuner for each collective and band of sizes.
 *
 * The choice is `scheduling/collectives/elimination.ts`. What is decided here is how it becomes a row that ranks follow: a schedule is given out once,
 * and stands while its rewards come in; another one only follows when it was gone through and something is still missing (steps are lost,
 * or had calls under two arms), when the number of calls in a step has changed, or when the choice is another one. A step has one time, so of the rows that a job
 * uses one explores after the other, those that carry most bytes first; which are used shows in the first steps.
 */

import {
  isSameRow,
  type CollectiveRow,
  type OverlapEvidence,
  type RewardSample,
  type RowReason,
  type TopologyClass,
} from "../../domain/collective-evidence.ts";
import { armsFor, isArm, type Arm, type Collective } from "../../scheduling/collectives/arm.ts";
import type { Choice, Sample } from "../../scheduling/collectives/choice.ts";
import { eliminationChoice } from "../../scheduling/collectives/elimination.ts";
import {
  exploredIterations,
  NO_LIMIT_BYTES,
  type ArmRun,
  type PolicyRow,
} from "../../scheduling/collectives/policy.ts";
import { sinceShift } from "../../scheduling/collectives/shift.ts";
import { medianOf } from "../../scheduling/collectives/trimming.ts";

export interface TunedRow {
  readonly row: PolicyRow;
  readonly why: string;
  readonly arms: RowReason["arms"];
  /** So many of the first samples are from before the ground shifted. */
  readonly shiftedAt: number;
}

const MiB = 1024 * 1024;
/** The paper's bands for what it measured (§4.2), and one above; smaller messages take less time than can be gained. */
const BANDS: readonly (readonly [minBytes: number, maxBytes: number])[] = [
  [MiB, 16 * MiB - 1],
  [16 * MiB, 128 * MiB - 1],
  [128 * MiB, NO_LIMIT_BYTES],
];
/** What training spends its time in; in the order of the policy file. */
const TUNED: readonly Collective[] = ["allgather", "reducescatter", "allreduce"];

export interface RowsQuestion {
  readonly topology: TopologyClass;
  readonly evidence: OverlapEvidence;
  /** Of the policy that was published last. */
  readonly former: readonly PolicyRow[] | undefined;
}

export function tunedRows({ topology, evidence, former }: RowsQuestion): readonly TunedRow[] {
  const { name, nodes, ranks, hasNvlink, hasNvlinkSharp } = topology;
  const place = { key: name, nodes, ranks, hasNvlink, hasNvlinkSharp, hasCollnet: false };
  const rows = TUNED.flatMap((collective) =>
    BANDS.map(([minBytes, maxBytes]) => {
      const key = { collective, minBytes, maxBytes };
      const seen = evidence.rows.find(isSameRow(key));
      return tunedRow({
        key,
        arms: armsFor({ collective, maxBytes, topology: place }),
        calls: seen?.calls ?? 1,
        samples: (seen?.samples ?? []).filter(({ arm }) => isArm(arm)),
        version: evidence.policy.version,
        former: former?.find(isSameRow(key)),
      });
    }),
  );
  return inTurn(rows, evidence);
}

/** Of the rows that are used and not decided, all but one wait. */
function inTurn(rows: readonly TunedRow[], evidence: OverlapEvidence): readonly TunedRow[] {
  const bytesOf = ({ row }: TunedRow): number =>
    (evidence.rows.find(isSameRow(row))?.calls ?? 0) * row.minBytes;
  const open = rows.filter((each) => each.row.explore !== undefined && bytesOf(each) > 0);
  const [first] = [...open].sort((a, b) => bytesOf(b) - bytesOf(a));
  return rows.map((each) => {
    if (each === first || !open.includes(each)) return each;
    const { collective, minBytes, maxBytes, arm } = each.row;
    const why = `waits: ${first?.row.collective ?? ""} is tried first`;
    return { ...each, row: { collective, minBytes, maxBytes, arm }, why };
  });
}

interface RowQuestion {
  readonly key: CollectiveRow & { readonly collective: Collective };
  readonly arms: readonly Arm[];
  readonly calls: number;
  readonly samples: readonly RewardSample[];
  readonly version: number;
  readonly former: PolicyRow | undefined;
}

function tunedRow(question: RowQuestion): TunedRow {
  const { key, arms, samples } = question;
  const known: readonly Sample[] = samples.flatMap(({ arm, micros, run }) =>
    isArm(arm) ? [{ arm, ms: micros / 1000, run: String(run) }] : [],
  );
  const choice = eliminationChoice(known, arms);
  const tried = arms.map((arm) => {
    const micros = samples.filter((sample) => sample.arm === arm).map((sample) => sample.micros);
    const typicalMicros = micros.length === 0 ? 0 : Math.round(medianOf(micros));
    return { arm, samples: micros.length, typicalMicros };
  });
  const shiftedAt = known.length - sinceShift(known).length;
  return { row: rowOf(key, choice, question), why: choice.why, arms: tried, shiftedAt };
}

function rowOf(key: RowQuestion["key"], choice: Choice, question: RowQuestion): PolicyRow {
  if (choice.kind === "exploit") return { ...key, arm: choice.arm };
  const { former, calls, samples, version } = question;
  const row = { ...key, arm: choice.meanwhile, explore: { stride: calls, runs: choice.runs } };
  if (former?.explore === undefined || former.explore.stride !== calls) return row;
  const isGoneThrough =
    samples.filter((sample) => sample.version === version).length >= exploredIterations(former);
  return isGoneThrough || !isWithin(choice.runs, former.explore.runs) ? row : former;
}

/** Whether all that is asked for is in the schedule that was given out. */
function isWithin(asked: readonly ArmRun[], given: readonly ArmRun[]): boolean {
  const count = (runs: readonly ArmRun[], arm: Arm): number =>
    runs.reduce((sum, run) => sum + (run.arm === arm ? run.count : 0), 0);
  return asked.every(({ arm }) => count(asked, arm) <= count(given, arm));
}
