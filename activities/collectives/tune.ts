/**
 * @file Makes the policy of one kind of communicator from its evidence: the activity of the collective tuner.
 *
 * `tuning/` chooses each row. This activity decides when a policy is new: only when some row differs from the last version, or is to be explored
 * again as it was, because every version costs the ranks of all jobs a vote.
 */

import type {
  CollectiveRow,
  PublishedPolicy,
  RowReason,
} from "../../domain/bandwidth/collective-evidence.ts";
import { parsePolicy, policyText } from "../../tuning/policy-file.ts";
import type { Policy, PolicyRow } from "../../tuning/policy.ts";
import type {
  CollectiveActivities,
  TuneAnswer,
  TuneOrder,
} from "../../protocol/collectives-contract.ts";
import { tunedRows, type TunedRow } from "./tuned-rows.ts";

const MAX_TOPOLOGY_CHARS = 63;

export const createCollectiveActivities = (): CollectiveActivities => ({
  tunePolicy: (order) => Promise.resolve(tuned(order)),
});

export function tuned({ topology, evidence, version }: TuneOrder): TuneAnswer {
  const former = formerRows(evidence.policy);
  const rows = tunedRows({ topology, evidence, former });
  const reasons = rows.map(reasonOf);
  const isExploring = rows.some(({ row }) => row.explore !== undefined);
  const stale = rows.flatMap(({ row, shiftedAt }) =>
    shiftedAt === 0 ? [] : [{ ...keyOf(row), samples: shiftedAt }],
  );
  if (former !== undefined && isSame(former, rows))
    return { policy: { ...evidence.policy, reasons, isExploring }, stale };
  const policy: Policy = {
    version,
    fromCall: 0,
    hasOverlap: evidence.hasOverlap,
    sections: [
      {
        topology: `${topology.cluster}/${topology.name}`.slice(0, MAX_TOPOLOGY_CHARS),
        nodes: topology.nodes,
        ranks: topology.ranks,
        rows: rows.map(({ row }) => row),
      },
    ],
  };
  return { policy: { version, text: policyText(policy), reasons, isExploring }, stale };
}

function formerRows({ text }: PublishedPolicy): readonly PolicyRow[] | undefined {
  const parsed = parsePolicy(text, "the policy before");
  return parsed.kind === "parsed" ? parsed.policy.sections[0]?.rows : undefined;
}

const isSame = (former: readonly PolicyRow[], rows: readonly TunedRow[]): boolean =>
  !rows.some(({ isRepeated }) => isRepeated) &&
  JSON.stringify(former) === JSON.stringify(rows.map(({ row }) => row));

const keyOf = ({ collective, minBytes, maxBytes }: PolicyRow): CollectiveRow => ({
  collective,
  minBytes,
  maxBytes,
});

const reasonOf = ({ row, why, arms }: TunedRow): RowReason => ({
  ...keyOf(row),
  arm: row.arm,
  isExploring: row.explore !== undefined,
  why,
  arms,
});
