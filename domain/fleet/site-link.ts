/**
 * @file The measured network from one site to another: the noun between the link monitor, the ledger and the scheduler.
 *
 * A measurement is valid until `validUntilMs`, because the monitor knows how often it probes. After that it counts as absent,
 * so a dead monitor does no harm.
 */

import { byCodeUnit } from "../values/ids.ts";
import type { Gbps, Ms } from "../values/units.ts";

export interface SiteLink {
  /** Sites; what was sent went from `from` to `to`. */
  readonly from: string;
  readonly to: string;
  /** The last probe that said anything of the link, good or bad. */
  readonly checkedAtMs: number;
  readonly validUntilMs: number;
  /** Absent until a probe came through. */
  readonly measured?: MeasuredRate;
  /** Start of an outage: no probe has succeeded since, although both ends answered. */
  readonly outageSinceMs?: number;
  /** Both ends were one machine, so the figures describe no link, and only the fact of an answer counts. */
  readonly isLocal?: true;
}

export interface MeasuredRate {
  /** Smoothed over the last probes, and how far single ones are from it on average. */
  readonly bandwidthGbps: Gbps;
  readonly spreadGbps: Gbps;
  readonly roundTripMs: Ms;
  /** Of the last probe that came through. */
  readonly atMs: number;
  /** Probes behind the figures. */
  readonly probes: number;
}

/** Sites are names without white space. */
export const siteLinkKey = (from: string, to: string): string => `${from} ${to}`;

/** The same for both directions. */
export const sitePairKey = (a: string, b: string): string =>
  byCodeUnit(a, b) <= 0 ? siteLinkKey(a, b) : siteLinkKey(b, a);

export const isInForce = ({ validUntilMs }: SiteLink, nowMs: number): boolean =>
  nowMs <= validUntilMs;
