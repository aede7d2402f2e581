/** @file What the disk of a host of the world keeps: tokens, launches, the last contact; and what may be wrong with it. */

import type { PresenceTerms, RunOrder, RunReport } from "../../protocol/agent-contract.ts";

export interface Tokens {
  /** The highest token that each GPU has seen. */
  readonly seen: number[];
  readonly revoked: Set<number>;
}

export const copyOf = ({ seen, revoked }: Tokens): Tokens => ({
  seen: [...seen],
  revoked: new Set(revoked),
});

/** `full` takes no new files, `read-only` not even new bytes in an old one; each durable write to a `slow` one takes long. */
export type DiskState = "well" | "full" | "read-only" | "slow";

/** Names a launch on its host: a lease has one, or one for each batch of array tasks. */
export const keyOf = ({ leaseId, taskBatch }: Pick<RunOrder, "leaseId" | "taskBatch">): string =>
  taskBatch === undefined ? leaseId : `${leaseId}#${taskBatch.seq}`;

/** One task of a batch that has had its turn; one that was skipped has no start. */
export interface Turn {
  readonly startedAtMs?: number;
  readonly endedAtMs?: number;
  readonly end?: "completed" | "failed" | "stopped";
}

/** What the disk knows of a launch. */
export interface Launch {
  readonly order: RunOrder;
  /** `over` without a report of its own: called off before it started. */
  phase: "stored" | "started" | "over";
  bootId: number;
  startedAtMs?: number;
  report?: RunReport;
  /** Of a batch. */
  readonly turns: Map<number, Turn>;
  /** Tasks of a batch that are to be stopped, or never to start. */
  readonly unwanted: Set<number>;
  /** Attempts of `run` that watch it. */
  watched: number;
}

export const newLaunch = (order: RunOrder, bootId: number): Launch => ({
  order,
  phase: "stored",
  bootId,
  watched: 0,
  turns: new Map(),
  unwanted: new Set(),
});

export interface Contact {
  readonly terms: PresenceTerms;
  readonly bootId: number;
  readonly atSinceBootMs: number;
  readonly wallMs: number;
}
