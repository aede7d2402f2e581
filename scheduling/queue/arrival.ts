/** @file Orders requests of equal submission time: by arrival at the ledger, then by job id. No two requests are equal. */

import { byCodeUnit } from "../../domain/values/ids.ts";
import type { PendingRequest } from "../../domain/lease/plan.ts";

export const byArrival = (a: PendingRequest, b: PendingRequest): number =>
  a.submittedAtMs - b.submittedAtMs || a.arrival - b.arrival || byCodeUnit(a.jobId, b.jobId);
