/** @file A packed ledger: JSON that only the codec (scheduling/ledger/codec.ts) writes and reads. */

import type { FleetShape } from "../fleet/fleet.ts";

/** The rows are opaque; the named fields may be read without the codec. */
export interface PackedLedger {
  readonly applyVersion: number;
  readonly shape: FleetShape;
  /** Key of the measured details in the store; absent when nothing was measured. */
  readonly detailsHash?: string;
}
