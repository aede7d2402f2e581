/** @file The interface of what makes one part of an outfit, one provider for each science. */

import type { FleetShape } from "../../domain/fleet.ts";
import type { Outfit, OutfitPart } from "../../domain/outfit.ts";
import type { OutfitOrder } from "../outfit-contract.ts";

export interface OutfitProvider {
  readonly part: OutfitPart;
  /** After so long the run starts without it. Work of a processor's own must end by itself: budgets count work. */
  readonly deadlineMs: number;
  /**
   * `shape`: the clusters of the lease with all their hosts, and the links between them. Throws, or answers `undefined` when there
   * is nothing to give; `message` is the note that users read.
   */
  provide(
    order: OutfitOrder,
    shape: FleetShape,
    signal: AbortSignal,
  ): Promise<(Outfit & { readonly message: string }) | undefined>;
}
