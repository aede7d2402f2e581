/** @file Reads what claims to be the announcement of an agent, and bounds how many agents and hosts one presence takes. */

import type { PresentAgent } from "../../protocol/fleet.ts";

/** Each agent has an activity; the server fails the workflow tasks of a run that has 2,000 of them open. */
const MOST_AGENTS = 1_900;
/** All go into the input of the next run, which may have two megabytes. */
const MOST_CHARACTERS = 1_000_000;
/** As much as a task queue's name may have. */
const MOST_CHARACTERS_EACH = 1_000;

/** Whether a signal announces an agent, and the run may keep one more announcement beside those that it has. */
export const isAnnouncement = (
  value: unknown,
  kept: readonly PresentAgent[],
): value is PresentAgent => isPresentAgent(value) && hasRoomFor(value, kept);

/** Whether a signal that claims to announce an agent does. */
function isPresentAgent(value: unknown): value is PresentAgent {
  if (typeof value !== "object" || value === null || !("agent" in value) || !("hosts" in value))
    return false;
  const { agent, hosts } = value;
  if (typeof agent !== "object" || agent === null || !Array.isArray(hosts)) return false;
  const isText = (name: string): boolean => isShort((agent as Record<string, unknown>)[name]);
  return (
    hosts.length > 0 &&
    hosts.every((host) => isShort(host) && /^\S+\/\S+$/.test(host)) &&
    ["epoch", "runQueue", "orderQueue", "address"].every(isText)
  );
}

const isShort = (value: unknown): value is string =>
  typeof value === "string" && value.length <= MOST_CHARACTERS_EACH;

/** Cost: O(kept), which is bounded. */
const hasRoomFor = (present: PresentAgent, kept: readonly PresentAgent[]): boolean =>
  kept.length < 2 * MOST_AGENTS &&
  kept.reduce((sum, each) => sum + charactersOf(each), charactersOf(present)) <= MOST_CHARACTERS;

/** With quotes, commas and names of fields, about. */
const charactersOf = ({ agent, hosts }: PresentAgent): number =>
  hosts.reduce((sum, host) => sum + host.length + 3, 0) +
  [agent.epoch, agent.runQueue, agent.orderQueue, agent.address].reduce(
    (sum, text) => sum + text.length + 20,
    0,
  );

/**
 * The agents that are given up for one more: none while there is room, then the first silent one, which may announce itself again. Undefined
 * when all answer.
 */
export function givenUp<Agent extends { readonly isSilent: boolean }>(
  agents: readonly Agent[],
): readonly Agent[] | undefined {
  if (agents.length < MOST_AGENTS) return [];
  const silent = agents.find(({ isSilent }) => isSilent);
  return silent && [silent];
}
