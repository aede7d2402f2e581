/** @file Links between clusters as rows of a table: described, measured, and the value in use. */

import type { Ledger } from "../../client/index.ts";
import type { Link } from "../../domain/fleet/fleet.ts";
import { isInForce, siteLinkKey, type SiteLink } from "../../domain/fleet/site-link.ts";
import { linksNow } from "../../scheduling/capacity/site-links.ts";
import { durationText } from "../terminal/duration.ts";
import type { Column } from "../terminal/table.ts";

/**
 * `measured`: the scheduler uses the measurement. `described`: it uses the description. `down`: no gang is placed across the
 * link.
 */
export type LinkState = "measured" | "described" | "down";

export interface LinkLine {
  readonly from: string;
  readonly to: string;
  readonly described?: Link;
  /** From site to site. */
  readonly measurement?: SiteLink;
  readonly isFresh: boolean;
  readonly state: LinkState;
  /** The bandwidth that the scheduler uses; absent while the link is down. */
  readonly inUse?: Link;
}

/** Described links in their order, then links that are only measured. */
export function linkLines(ledger: Ledger, nowMs: number): readonly LinkLine[] {
  const { shape, links } = ledger;
  const siteOf = new Map<string, string>(shape.clusters.map(({ id, site }) => [id, site]));
  const effective = linksNow(ledger, nowMs);
  const now = new Map(effective.map((link) => [siteLinkKey(link.from, link.to), link]));
  const described = new Map(shape.links.map((link) => [siteLinkKey(link.from, link.to), link]));
  const pairs = new Map<string, Pick<Link, "from" | "to">>();
  for (const { from, to } of [...shape.links, ...effective])
    pairs.set(siteLinkKey(from, to), { from, to });
  for (const { id: from, site } of shape.clusters)
    for (const { id: to, site: other } of shape.clusters)
      if (links?.has(siteLinkKey(site, other)) === true)
        pairs.set(siteLinkKey(from, to), { from, to });
  return [...pairs].map(([key, { from, to }]) => {
    const measurement = links?.get(siteLinkKey(siteOf.get(from) ?? "", siteOf.get(to) ?? ""));
    const isFresh = measurement !== undefined && isInForce(measurement, nowMs);
    const inUse = now.get(key);
    const said = described.get(key);
    const isMeasured =
      isFresh && measurement.measured !== undefined && measurement.isLocal !== true;
    return {
      from,
      to,
      ...(said !== undefined && { described: said }),
      ...(measurement !== undefined && { measurement }),
      isFresh,
      state:
        isFresh && measurement.outageSinceMs !== undefined
          ? "down"
          : isMeasured
            ? "measured"
            : "described",
      ...(inUse !== undefined && { inUse }),
    };
  });
}

export const LINK_COLUMNS: readonly Column[] = [
  { title: "FROM", least: 6 },
  { title: "TO", least: 6 },
  { title: "DESCRIBED", isRight: true },
  { title: "MEASURED", isRight: true },
  { title: "ROUND TRIP", isRight: true },
  { title: "AGE", isRight: true },
  { title: "IN USE", least: 8 },
];

export function linkRow(line: LinkLine, nowMs: number): readonly string[] {
  const { from, to, described, measurement } = line;
  const measured = measurement?.measured;
  return [
    from,
    to,
    described === undefined ? "–" : rateText(described.bandwidthGbps),
    measured === undefined
      ? "–"
      : `${rateText(measured.bandwidthGbps)} ±${percentText(measured.spreadGbps, measured.bandwidthGbps)}`,
    measured === undefined ? "–" : `${numberText(measured.roundTripMs)}ms`,
    measured === undefined ? "–" : durationText(nowMs - measured.atMs),
    inUseText(line, nowMs),
  ];
}

function inUseText({ state, measurement, isFresh }: LinkLine, nowMs: number): string {
  if (state === "down")
    return `down for ${durationText(nowMs - (measurement?.outageSinceMs ?? nowMs))}`;
  if (state === "measured") return "measured";
  if (measurement === undefined) return "described";
  if (measurement.isLocal === true) return "described (one machine)";
  return isFresh ? "described" : "described (old)";
}

const rateText = (gbps: number): string => `${numberText(gbps)} Gb/s`;

const percentText = (part: number, whole: number): string =>
  whole > 0 ? `${String(Math.round((100 * part) / whole))}%` : "0%";

/** Three significant digits. */
const numberText = (value: number): string => String(Number(value.toPrecision(3)));
