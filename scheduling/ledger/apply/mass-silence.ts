/**
 * @file Tells whether so many agents are silent at once that the outage is taken for ours.
 *
 * Cost: O(hosts). Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import type { Ledger } from "../ledger.ts";

/** More than this share of the agents at once is an outage of the control plane. */
export const MASS_SILENCE_SHARE = 0.2;

export function isMassSilence(hosts: Ledger["hosts"]): boolean {
  if (!isAnySilent(hosts)) return false;
  const { agents, silent } = countAgents(hosts);
  return silent > 1 && silent > MASS_SILENCE_SHARE * agents;
}

/** The epochs of all agents need not be told apart where all answer. */
function isAnySilent(hosts: Ledger["hosts"]): boolean {
  for (const { silentSinceMs } of hosts.values()) if (silentSinceMs !== undefined) return true;
  return false;
}

/** How many agents there are, and how many of them do not answer. */
export function countAgents(hosts: Ledger["hosts"]): {
  readonly agents: number;
  readonly silent: number;
} {
  const agents = new Set<string>();
  const silent = new Set<string>();
  for (const { agent, silentSinceMs } of hosts.values()) {
    // A host whose agent the ledger does not know may have been off for long: it says nothing of an outage.
    if (agent === undefined) continue;
    agents.add(agent.epoch);
    if (silentSinceMs !== undefined) silent.add(agent.epoch);
  }
  return { agents: agents.size, silent: silent.size };
}
