/** @file The estimated start of a waiting request, from plays of the queue. */

import type { RequestKey } from "./lease.ts";

/** An estimate on its way to the ledger; JSON knows no infinity, so a time beyond all plays is absent. */
export interface StartEstimate {
  readonly request: RequestKey;
  readonly fromMs?: number;
  readonly medianMs?: number;
  readonly toMs?: number;
}
