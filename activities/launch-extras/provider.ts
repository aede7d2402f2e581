/** @file The interface of a provider, which makes one part of the launch extras. */

import type { FleetShape } from "../../domain/fleet/fleet.ts";
import type {
  LaunchExtras,
  LaunchExtra,
  LaunchExtrasNote,
} from "../../domain/lease/launch-extras.ts";
import type { LaunchExtrasOrder } from "../../protocol/launch-extras-contract.ts";

export interface LaunchExtrasProvider {
  readonly part: LaunchExtra;
  /** Time after which the run starts without the part. Computation must end by itself, by budgets that count work. */
  readonly deadlineMs: number;
  /**
   * `shape`: the clusters of the lease with all their hosts, and the links between them. Throws, or returns `undefined` when
   * the part is empty; the note of the run has the rest.
   */
  provide(
    order: LaunchExtrasOrder,
    shape: FleetShape,
    signal: AbortSignal,
  ): Promise<(LaunchExtras & Pick<LaunchExtrasNote, "message" | "onGpus" | "planned">) | undefined>;
}
