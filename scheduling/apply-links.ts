/**
 * @file What the link monitor's news change: words of links may overtake each other, so the one that was checked later counts.
 *
 * What is described stays as it is; the measured lies beside it (links.ts reads both). Only a link that goes out, or comes back, is a
 * reason to decide again: a gang over two sites may have lost or found its place. Sites that the fleet lacks are a dead letter.
 * Cost: O(links of the entry).
 */

import { siteLinkKey, type SiteLink } from "../domain/site-link.ts";
import { bury, noteChange, type Draft } from "./draft.ts";

export function applyLinks(
  draft: Draft,
  news: readonly SiteLink[],
  origin: { readonly json: string; readonly nowMs: number },
): void {
  const sites = new Set(draft.shape.clusters.map(({ site }) => site));
  const isKnown = ({ from, to }: SiteLink): boolean =>
    sites.has(from) && sites.has(to) && from !== to;
  const strange = news.find((link) => !isKnown(link));
  if (strange !== undefined) {
    const message = `a link monitor tells of the link from site ${strange.from} to site ${strange.to}; the fleet's description has no such two sites`;
    bury(draft, { code: "HostUnknown", message, ...origin });
  }
  for (const link of news.filter(isKnown)) {
    const key = siteLinkKey(link.from, link.to);
    const former = draft.links.get(key);
    const checkedAtMs = Math.min(link.checkedAtMs, origin.nowMs);
    if (former !== undefined && checkedAtMs <= former.checkedAtMs) continue;
    draft.links.set(key, { ...link, checkedAtMs });
    draft.isChanged = true;
    if ((former?.outageSinceMs === undefined) !== (link.outageSinceMs === undefined))
      noteChange(draft);
  }
}
