/**
 * @file The paper's hybrid search: EHA and PTS, and of their two answers the one with the higher prediction (§4.3.1). Ties: search.ts.
 */

import { eha } from "../../../scheduling/pick/balanced.ts";
import { pts } from "./pruned-tree.ts";
import { openContest, type PickSearch } from "../../../scheduling/pick/search.ts";

export const hybrid: PickSearch = (question, budget) => {
  const parts = [eha(question, budget), pts(question)].filter((part) => part !== undefined);
  const contest = openContest(question);
  contest.enter(parts.map(({ pick }) => pick));
  const best = contest.result(false);
  if (best === undefined) return undefined;
  const sum = (of: "candidates" | "batches" | "work"): number =>
    parts.reduce((all, { stats }) => all + stats[of], 0);
  return {
    ...best,
    stats: {
      candidates: sum("candidates"),
      batches: sum("batches"),
      work: sum("work"),
      isExact: false,
    },
  };
};
