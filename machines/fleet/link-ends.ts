/** @file Which agents of a fleet may take part in a probe between two sites: those that answer, a few of each site. */

import type { LinkEnd, LinkEnds } from "../../protocol/link-contract.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";

/** More are not asked: a pair's turn goes round among them. */
const MAX_ENDS = 8;

/** In the fleet's order, each agent once. Cost: O(hosts). */
export function linkEndsOf({ shape, hosts }: Pick<Ledger, "shape" | "hosts">): readonly LinkEnds[] {
  const bySite = new Map<string, Map<string, LinkEnd>>();
  for (const { site, hosts: inCluster } of shape.clusters) {
    const ends = bySite.get(site) ?? new Map<string, LinkEnd>();
    bySite.set(site, ends);
    for (const { id } of inCluster) {
      const { agent, silentSinceMs, isFenced } = hosts.get(id) ?? {};
      if (agent === undefined || silentSinceMs !== undefined || isFenced === true) continue;
      if (ends.size < MAX_ENDS && !ends.has(agent.epoch))
        ends.set(agent.epoch, { host: id, orderQueue: agent.orderQueue });
    }
  }
  return [...bySite].map(([site, ends]) => ({ site, ends: [...ends.values()] }));
}
