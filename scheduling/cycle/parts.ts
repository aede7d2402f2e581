/** @file The parts of a cycle that change. Each has one owner, and each function names those that it needs. */

import type { ReservationSet } from "../reservation/reservation-set.ts";
import type { PlanDraft } from "./plan-draft.ts";
import type { PreemptionBudget } from "./preemption-budget.ts";
import type { WaitReports } from "./wait-reports.ts";
import type { WorkBudget } from "./work-budget.ts";

export interface CycleParts {
  readonly plan: PlanDraft;
  readonly work: WorkBudget;
  readonly reservations: ReservationSet;
  readonly reports: WaitReports;
  readonly preemption: PreemptionBudget;
}

/** Whether the plan or the work of the cycle is at its limit. */
export const isAtLimit = ({ plan, work }: Pick<CycleParts, "plan" | "work">): boolean =>
  plan.isFull() || work.isSpent();
