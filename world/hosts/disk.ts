/** @file What the disk of a host of the world keeps: tokens, launches, the last contact. Types. */

import type { PresenceTerms, RunOrder, RunReport } from "../../protocol/agent-contract.ts";

export interface Tokens {
  /** The highest token that each GPU has seen. */
  readonly seen: number[];
  readonly revoked: Set<number>;
}

/** What the disk knows of a launch. */
export interface Launch {
  readonly order: RunOrder;
  /** `over` without a report of its own: called off before it started. */
  phase: "stored" | "started" | "over";
  bootId: number;
  startedAtMs?: number;
  report?: RunReport;
  /** Attempts of `run` that watch it. */
  watched: number;
}

export interface Contact {
  readonly terms: PresenceTerms;
  readonly bootId: number;
  readonly atSinceBootMs: number;
  readonly wallMs: number;
}
