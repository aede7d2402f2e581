/**
 * @file What is known of the network from one site to another by having tried it: the noun between the link monitor, the ledger and who decides.
 *
 * A word holds until `validUntilMs`: the monitor knows how often it looks. Afterwards it is as if nothing had been measured, so a monitor
 * that is gone does harm to nobody.
 */

import { byCodeUnit } from "./ids.ts";
import type { Gbps, Ms } from "./units.ts";

export interface SiteLink {
  /** Sites; what was sent went from `from` to `to`. */
  readonly from: string;
  readonly to: string;
  /** The last probe that said anything of the link, good or bad. */
  readonly checkedAtMs: number;
  readonly validUntilMs: number;
  /** Absent until a probe came through. */
  readonly measured?: MeasuredRate;
  /** Since then no probe has come through, though both ends were there. */
  readonly outageSinceMs?: number;
  /** Both ends were one machine: what was measured is no link, and only whether there is an answer counts. */
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
