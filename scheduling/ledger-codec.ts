/** @file The ledger as plain JSON, compact: what the fleet workflow carries over continue-as-new and hands to `decide`. */

import type { FleetShape } from "../domain/fleet.ts";

/** Written and read by this file alone, but for `shape` and `detailsHash`. */
export interface PackedLedger {
  readonly applyVersion: number;
  readonly shape: FleetShape;
  readonly detailsHash?: string;
}
