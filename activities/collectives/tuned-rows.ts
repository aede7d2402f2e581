/**
 * @file The rows of a policy from the evidence of one kind of communicator.
 *
 * A row that is not decided yet goes through its arms in turn, each step under one arm, and is used as NCCL has it afterwards, until the
 * rewards are in. Then the arm with the lowest trimmed mean is taken if it is 5 % better than NCCL's own choice (bandit paper §4.2).
 */

import type {
  CollectiveRow,
  OverlapEvidence,
  RewardSample,
  RowReason,
  TopologyClass,
} from "../../domain/collective-evidence.ts";
import {
  armsFor,
  type Arm,
  type Collective,
  type Topology,
} from "../../scheduling/collectives/arm.ts";
import { NO_LIMIT_BYTES, type PolicyRow } from "../../scheduling/collectives/policy.ts";

export interface TunedRow {
  readonly row: PolicyRow;
  readonly why: string;
  readonly arms: RowReason["arms"];
}

const MiB = 1024 * 1024;
const ROUNDS = 5;
const MAX_ARMS = 6;
const LEAST_GAIN = 0.05;
const BANDS: readonly (readonly [minBytes: number, maxBytes: number])[] = [
  [MiB, 16 * MiB - 1],
  [16 * MiB, 128 * MiB - 1],
  [128 * MiB, NO_LIMIT_BYTES],
];
const TUNED: readonly Collective[] = ["allgather", "reducescatter", "allreduce"];

export function tunedRows({
  topology,
  evidence,
  former,
}: {
  readonly topology: TopologyClass;
  readonly evidence: OverlapEvidence;
  readonly former: readonly PolicyRow[] | undefined;
}): readonly TunedRow[] {
  const place: Topology = {
    key: topology.name,
    nodes: topology.nodes,
    ranks: topology.ranks,
    hasNvlink: topology.hasNvlink,
    hasNvlinkSharp: topology.hasNvlinkSharp,
    hasCollnet: false,
  };
  return TUNED.flatMap((collective) =>
    BANDS.map(([minBytes, maxBytes]) => {
      const key = { collective, minBytes, maxBytes };
      const isOf = isRow(key);
      const arms = armsFor({ collective, maxBytes, topology: place }).slice(0, MAX_ARMS);
      const seen = evidence.rows.find(isOf);
      return tunedRow({
        key,
        arms,
        calls: seen?.calls ?? 1,
        samples: seen?.samples ?? [],
        former: former?.find(isOf),
      });
    }),
  );
}

const isRow =
  (key: CollectiveRow) =>
  (row: CollectiveRow): boolean =>
    row.collective === key.collective &&
    row.minBytes === key.minBytes &&
    row.maxBytes === key.maxBytes;

function tunedRow({
  key,
  arms,
  calls,
  samples,
  former,
}: {
  readonly key: CollectiveRow & { readonly collective: Collective };
  readonly arms: readonly Arm[];
  readonly calls: number;
  readonly samples: readonly RewardSample[];
  readonly former: PolicyRow | undefined;
}): TunedRow {
  const tried = arms.map((arm) => {
    const micros = samples.filter((sample) => sample.arm === arm).map((sample) => sample.micros);
    return { arm, samples: micros.length, typicalMicros: Math.round(trimmedMean(micros)) };
  });
  if (arms.length < 2)
    return { row: { ...key, arm: "auto" }, why: "there is nothing else to choose", arms: tried };
  const missing = tried.filter((arm) => arm.samples < ROUNDS).length;
  if (missing > 0) {
    const runs = Array.from({ length: ROUNDS }, () => arms.map((arm) => ({ arm, count: 1 })));
    const row: PolicyRow =
      former?.explore?.stride === calls
        ? former
        : { ...key, arm: "auto", explore: { stride: calls, runs: runs.flat() } };
    return {
      row,
      why: `${String(missing)} of ${String(arms.length)} arms to be tried`,
      arms: tried,
    };
  }
  const auto = tried.find(({ arm }) => arm === "auto");
  const [best] = [...tried].sort((a, b) => a.typicalMicros - b.typicalMicros);
  if (auto === undefined || best === undefined || best.arm === "auto")
    return { row: { ...key, arm: "auto" }, why: "NCCL's own choice is the best", arms: tried };
  const gain = 1 - best.typicalMicros / auto.typicalMicros;
  const isClear = gain >= LEAST_GAIN;
  return {
    row: { ...key, arm: isClear ? best.arm : "auto" },
    why: isClear
      ? `${(100 * gain).toFixed(1)} % less than NCCL's own choice`
      : `${best.arm} is only ${(100 * gain).toFixed(1)} % better than NCCL's own choice`,
    arms: tried,
  };
}

/** Without what lies more than 1.5 interquartile ranges outside the quartiles. */
function trimmedMean(values: readonly number[]): number {
  if (values.length === 0) return 0;
  const sorted = [...values].sort((a, b) => a - b);
  const at = (share: number): number => sorted[Math.floor(share * (sorted.length - 1))] ?? 0;
  const reach = 1.5 * (at(0.75) - at(0.25));
  const kept = sorted.filter((value) => value >= at(0.25) - reach && value <= at(0.75) + reach);
  return kept.reduce((sum, value) => sum + value, 0) / kept.length;
}
