/** @file What a presence shows of itself. */

import type { HostId } from "../../domain/values/ids.ts";
import type { Presence } from "./presence-state.ts";

const SHOWN_SILENT = 20;

/** What the presence shows of itself, as Markdown. */
export function presenceDetails({ cluster, agents }: Presence): string {
  const silent = agents.filter(({ isSilent }) => isSilent);
  const names = silent.slice(0, SHOWN_SILENT).map(({ hosts }) => nameOf(hosts));
  return [
    `**${cluster}**: ${agents.length - silent.length} of ${agents.length} agents answer`,
    ...(names.length > 0 ? ["", `silent: ${names.join(", ")}`] : []),
  ].join("\n");
}

export const nameOf = (hosts: readonly HostId[]): string =>
  hosts.length > 3
    ? `${hosts.slice(0, 3).join(", ")} and ${hosts.length - 3} more`
    : hosts.join(", ");
