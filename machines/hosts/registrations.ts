/**
 * @file An agent's report as entries for the fleet's inbox.
 *
 * A large report goes in parts, each well below what an inbox takes; the runs of one host are whole in one of them.
 */

import type { InboxEntry } from "../../domain/lease/inbox-entry.ts";
import type { HostId } from "../../domain/values/ids.ts";
import type { AgentReport, PresenceTerms } from "../../protocol/agent-contract.ts";

const RUNNING_PER_REGISTRATION = 200;

export function registrationsOf(
  { agent, hosts, running, highestToken }: AgentReport,
  { onSilence, fenceMs }: PresenceTerms,
): readonly InboxEntry[] {
  const parts: { hosts: HostId[]; running: RegisteredRun[] }[] = [];
  for (const host of hosts) {
    const mine = running
      .filter((run) => run.host === host)
      .map(({ lease }) => ({ host, lease: lease.id, token: lease.token, fact: lease }));
    const last = parts.at(-1);
    if (last === undefined || last.running.length + mine.length > RUNNING_PER_REGISTRATION)
      parts.push({ hosts: [host], running: mine });
    else {
      last.hosts.push(host);
      last.running.push(...mine);
    }
  }
  const terms = onSilence === "hold" ? {} : { fenceMs };
  return parts.map((part) => ({ kind: "agent-registered", ...part, agent, highestToken, terms }));
}

type RegisteredRun = Extract<InboxEntry, { kind: "agent-registered" }>["running"][number];
