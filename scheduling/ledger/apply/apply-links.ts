/**
 * @file Applies the measurements of the link monitor. Reports may overtake each other, so the report with the later check counts.
 *
 * The described links stay as they are; measurements lie beside them (capacity/site-links.ts reads both). Only a link that fails or
 * recovers calls for a new decision: a gang over two sites may have lost or gained a placement. Unknown sites go to the dead letters.
 * Cost: O(links of the entry). Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import { siteLinkKey, type SiteLink } from "../../../domain/fleet/site-link.ts";
import { jsonBytes } from "../size-table.ts";
import { isRoomForWord, noteGrowth } from "./transaction-size.ts";
import { bury, noteChange, refuse, type LedgerTransaction } from "./transaction.ts";

export function applyLinks(
  transaction: LedgerTransaction,
  news: readonly SiteLink[],
  origin: { readonly json: string; readonly nowMs: number },
): void {
  const sites = new Set(transaction.shape.clusters.map(({ site }) => site));
  const isKnown = ({ from, to }: SiteLink): boolean =>
    sites.has(from) && sites.has(to) && from !== to;
  const strange = news.find((link) => !isKnown(link));
  if (strange !== undefined) {
    const message = `a link monitor tells of the link from site ${strange.from} to site ${strange.to}; the fleet's description has no such two sites`;
    bury(transaction, { code: "HostUnknown", message, ...origin });
  }
  for (const link of news.filter(isKnown)) {
    const key = siteLinkKey(link.from, link.to);
    const former = transaction.links.get(key);
    const checkedAtMs = Math.min(link.checkedAtMs, origin.nowMs);
    if (former !== undefined && checkedAtMs <= former.checkedAtMs) continue;
    if (!isRoomForWord(transaction, link)) {
      const message = `there is no room for what was measured from site ${link.from} to site ${link.to}`;
      refuse(transaction, "LedgerFull", message);
      continue;
    }
    noteGrowth(transaction, jsonBytes(link));
    transaction.drafts.links.write().set(key, { ...link, checkedAtMs });
    transaction.isChanged = true;
    if ((former?.outageSinceMs === undefined) !== (link.outageSinceMs === undefined))
      noteChange(transaction);
  }
}
