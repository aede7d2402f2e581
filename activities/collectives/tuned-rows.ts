/**
 * @file The rows of a policy from the evidence of one kind of communicator: our online tuner for each collective and band of sizes.
 *
 * `tuning/timed-choice.ts` makes the choice; this file turns it into a row that ranks follow. A schedule is published once and stands while
 * its rewards arrive. Another one follows only when the schedule is complete and samples are still missing (steps were lost, or had calls
 * under two arms), when the number of calls in a step has changed, or when the choice has changed. A step has one time, so the rows that a
 * job uses explore one after the other, those with the most bytes first; the first steps show which rows are used.
 */

import {
  isSameRow,
  type CollectiveRow,
  type OverlapEvidence,
  type RewardSample,
  type RowReason,
  type TopologyClass,
} from "../../domain/bandwidth/collective-evidence.ts";
import { isArm, type Arm, type Collective } from "../../domain/bandwidth/collective-arm.ts";
import { armsFor } from "../../tuning/arm.ts";
import type { Choice } from "../../tuning/choice.ts";
import { timedChoice, type StepSample } from "../../tuning/timed-choice.ts";
import {
  exploredIterations,
  NO_LIMIT_BYTES,
  type ArmRun,
  type PolicyRow,
} from "../../tuning/policy.ts";
import { medianOf } from "../../tuning/trimming.ts";

export interface TunedRow {
  readonly row: PolicyRow;
  readonly why: string;
  readonly arms: RowReason["arms"];
  /** Number of first samples from before the last shift. */
  readonly shiftedAt: number;
  /** The published schedule is gone through and is to be gone through again: ranks do so only under a new version. */
  readonly isRepeated: boolean;
}

const MiB = 1024 * 1024;
/** The paper's bands of measured sizes (§4.2), and one above; smaller messages take too little time to gain from tuning. */
const BANDS: readonly (readonly [minBytes: number, maxBytes: number])[] = [
  [MiB, 16 * MiB - 1],
  [16 * MiB, 128 * MiB - 1],
  [128 * MiB, NO_LIMIT_BYTES],
];
/** The collectives of training, in the order of the policy file. */
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

/** All but one of the rows in use without a decision wait. */
function inTurn(rows: readonly TunedRow[], evidence: OverlapEvidence): readonly TunedRow[] {
  const bytesOf = ({ row }: TunedRow): number =>
    (evidence.rows.find(isSameRow(row))?.calls ?? 0) * row.minBytes;
  const open = rows.filter((each) => each.row.explore !== undefined && bytesOf(each) > 0);
  const [first] = [...open].sort((a, b) => bytesOf(b) - bytesOf(a));
  return rows.map((each) => {
    if (each === first || !open.includes(each)) return each;
    const { collective, minBytes, maxBytes, arm } = each.row;
    const why = `waits: ${first?.row.collective ?? ""} is tried first`;
    return { ...each, row: { collective, minBytes, maxBytes, arm }, why, isRepeated: false };
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
  const known: readonly StepSample[] = samples.flatMap(
    ({ arm, micros, slowestMicros, version, run }) =>
      isArm(arm)
        ? [
            {
              ...{ arm, ms: micros / 1000, run: String(run), version },
              ...(slowestMicros !== undefined && { collectiveMs: slowestMicros / 1000 }),
            },
          ]
        : [],
  );
  const { former } = question;
  const { choice, stale: shiftedAt } = timedChoice(known, arms, {
    exploited: former?.explore === undefined ? former?.arm : undefined,
  });
  const tried = arms.map((arm) => {
    const own = samples.filter((sample) => sample.arm === arm);
    const slowest = own.flatMap(({ slowestMicros }) => slowestMicros ?? []);
    return {
      arm,
      samples: own.length,
      typicalMicros: typicalOf(own.map(({ micros }) => micros)),
      ...(slowest.length > 0 && { slowestMicros: typicalOf(slowest) }),
    };
  });
  const row = rowOf(key, choice, question);
  const isRepeated = row.explore !== undefined && isGoneThrough(question);
  return { row, why: choice.why, arms: tried, shiftedAt, isRepeated };
}

const typicalOf = (micros: readonly number[]): number =>
  micros.length === 0 ? 0 : Math.round(medianOf(micros));

const isGoneThrough = ({ former, samples, version }: RowQuestion): boolean =>
  former?.explore !== undefined &&
  samples.filter((sample) => sample.version === version).length >= exploredIterations(former);

function rowOf(key: RowQuestion["key"], choice: Choice, question: RowQuestion): PolicyRow {
  if (choice.kind === "exploit") return { ...key, arm: choice.arm };
  const { former, calls } = question;
  const row = { ...key, arm: choice.meanwhile, explore: { stride: calls, runs: choice.runs } };
  if (former?.explore === undefined || former.explore.stride !== calls) return row;
  return isGoneThrough(question) || !isWithin(choice.runs, former.explore.runs) ? row : former;
}

/** Whether the published schedule has all wanted arms: how often each is wanted grows while its times arrive. */
const isWithin = (asked: readonly ArmRun[], given: readonly ArmRun[]): boolean =>
  asked.every(({ arm }) => given.some((run) => run.arm === arm));
