/** @file Links between clusters as rows of a table: described, measured, and which of the two counts now. */

import type { Ledger } from "../client/index.ts";
import type { Link } from "../domain/fleet.ts";
import { isInForce, siteLinkKey, type SiteLink } from "../domain/site-link.ts";
import { linksNow } from "../scheduling/links.ts";
import { durationText } from "./duration.ts";
import type { Column } from "./table.ts";

/** `measured`: decisions go by that. `described`: by the description. `out`: no gang lies over it. */
export type LinkState = "measured" | "described" | "out";

export interface LinkLine {
  readonly from: string;
  readonly to: string;
  readonly described?: Link;
  /** From site to site. */
  readonly word?: SiteLink;
  readonly isFresh: boolean;
  readonly state: LinkState;
  /** What decisions go by; absent of a link that is out. */
  readonly now?: Link;
}

/** Links that are described, in their order, then those that are known by measuring alone. */
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
    const word = links?.get(siteLinkKey(siteOf.get(from) ?? "", siteOf.get(to) ?? ""));
    const isFresh = word !== undefined && isInForce(word, nowMs);
    const inUse = now.get(key);
    const said = described.get(key);
    const isMeasured = isFresh && word.measured !== undefined && word.isLocal !== true;
    return {
      from,
      to,
      ...(said !== undefined && { described: said }),
      ...(word !== undefined && { word }),
      isFresh,
      state:
        isFresh && word.outageSinceMs !== undefined ? "out" : isMeasured ? "measured" : "described",
      ...(inUse !== undefined && { now: inUse }),
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
  { title: "COUNTS", least: 8 },
];

export function linkRow(line: LinkLine, nowMs: number): readonly string[] {
  const { from, to, described, word } = line;
  const measured = word?.measured;
  return [
    from,
    to,
    described === undefined ? "–" : rateText(described.bandwidthGbps),
    measured === undefined
      ? "–"
      : `${rateText(measured.bandwidthGbps)} ±${percentText(measured.spreadGbps, measured.bandwidthGbps)}`,
    measured === undefined ? "–" : `${numberText(measured.roundTripMs)}ms`,
    measured === undefined ? "–" : durationText(nowMs - measured.atMs),
    countsText(line, nowMs),
  ];
}

function countsText({ state, word, isFresh }: LinkLine, nowMs: number): string {
  if (state === "out") return `out for ${durationText(nowMs - (word?.outageSinceMs ?? nowMs))}`;
  if (state === "measured") return "measured";
  if (word === undefined) return "described";
  if (word.isLocal === true) return "described (one machine)";
  return isFresh ? "described" : "described (old)";
}

const rateText = (gbps: number): string => `${numberText(gbps)} Gb/s`;

const percentText = (part: number, whole: number): string =>
  whole > 0 ? `${String(Math.round((100 * part) / whole))}%` : "0%";

/** Three digits that count. */
const numberText = (value: number): string => String(Number(value.toPrecision(3)));
