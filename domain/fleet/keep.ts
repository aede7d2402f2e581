/**
 * @file What `keep:` of a fleet file says (`keep-schema.ts`): how long, and how much at most, a machine keeps of what a fleet writes there; and what holds where the file says nothing.
 *
 * These are all ages and sizes by which something is removed. Agents and consoles do not read the file: what they remove by themselves goes by
 * `AGENTS_KEEP` and `MOST_ARCHIVE_BYTES`, the rest is for `orbweaver house --collect`.
 */

import type { TenantId } from "../values/ids.ts";

const DAY_MS = 86_400_000;
const GIB = 2 ** 30;

/** What agents remove each hour of the output of launches that are over, on every host. */
export const AGENTS_KEEP = Object.freeze({
  /** A week: long enough to look into a failure after a holiday. */
  keepMs: 7 * DAY_MS,
  /** Launches of seconds, as arrays have them, would fill a disk within a week. */
  keepCount: 1_000,
});

/** Of all kept runs of a fleet, by its console: months of a busy one. */
export const MOST_ARCHIVE_BYTES = 2 * GIB;

/** No rule removes what is younger, be a quota ever so small: who looks into a failure has a day for it. */
export const GRACE_MS = DAY_MS;

const MONTH_MS = 30 * DAY_MS;

/** Of one kind of things. Absent: no such limit. */
export interface KeepRule {
  readonly forMs?: number;
  readonly mostBytes?: number;
  /** Of each tenant, by `tenants`, else this. */
  readonly tenantBytes?: number;
  readonly tenants?: ReadonlyMap<TenantId, number>;
}

export interface KeepRules {
  /** Counted from the end of their job. */
  readonly checkpoints: KeepRule;
  /** Of launches; beside what agents remove. */
  readonly output: KeepRule;
  /** Of runs of the fleet's workflow, from their end. */
  readonly archives: KeepRule;
  /** Of processes that have ended, from their last line. */
  readonly logs: KeepRule;
  /** Rows of the history database, from the end of the job. */
  readonly history: KeepRule;
  /** Values to which nothing refers, from when they were put there last. */
  readonly store: KeepRule;
  /** Only who asks for it collects. */
  readonly isByHand?: true;
}

export const DEFAULT_KEEP: KeepRules = Object.freeze({
  checkpoints: { forMs: MONTH_MS },
  output: {},
  archives: { mostBytes: MOST_ARCHIVE_BYTES },
  logs: { forMs: MONTH_MS },
  history: {},
  store: { forMs: MONTH_MS },
});
