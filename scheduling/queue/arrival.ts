/** @file The order of those who have waited equally long: by arrival at the ledger, then by job id. No two are equal. */

import { byCodeUnit } from "../../domain/ids.ts";
import type { PendingRequest } from "../../domain/plan.ts";

export const byArrival = (a: PendingRequest, b: PendingRequest): number =>
  a.submittedAtMs - b.submittedAtMs || a.arrival - b.arrival || byCodeUnit(a.jobId, b.jobId);
