/** @file How a model agent makes itself known: its address, its announcements, its reports of what runs, and its heartbeats. */

import type { AgentAddress } from "../../domain/lease/inbox-entry.ts";
import { clusterOf } from "../../domain/values/ids.ts";
import type { AgentReport, PresenceTerms, RunOrder } from "../../protocol/agent-contract.ts";
import { presenceWorkflowId } from "../../protocol/names.ts";
import { sleep, type Process, type Task } from "../kernel/process.ts";
import type { ActivityEnd, Attempt } from "../temporal/activity.ts";
import type { Agents } from "./agents.ts";
import type { Host } from "./host.ts";

const RETRY_MS = 1_000;
const REFUSED: ActivityEnd<never> = { kind: "failed", code: "HOST_REFUSED", isFinal: true };

/** Heartbeat activities that run, by process; of its present incarnation. */
const contacts = new WeakMap<Process, { incarnation: number; count: number }>();

export function addressOf(host: Host, process: Process): AgentAddress {
  // Of one host in the order of its lives; no two hosts have the same.
  const epoch = `${1_000_000 + process.incarnation()}-${host.id}`;
  return {
    epoch,
    runQueue: `run-${epoch}`,
    orderQueue: `orders-${epoch}`,
    address: host.id,
  };
}

export function* announce(agents: Agents, host: Host, process: Process): Task<void> {
  const { network, server, kernel } = agents.site();
  const cluster = clusterOf(host.id);
  const id = presenceWorkflowId(agents.fleet, cluster);
  const word = {
    name: "announce",
    payload: { agent: addressOf(host, process), hosts: [host.id] },
  };
  for (;;) {
    const reply = yield* network.call(process, () => {
      server.start("presence", id, { fleet: agents.fleet, cluster });
      server.signal(id, word);
    });
    if (reply.isHeard) return;
    yield* sleep(kernel, RETRY_MS);
  }
}

interface Asked {
  readonly epoch: string;
  readonly terms: PresenceTerms;
}

const hostOf = (agents: Agents, { process }: Attempt<never>): Host | undefined =>
  [...agents.hosts.values()].find(({ agent }) => agent === process);

export function* reportOf(
  agents: Agents,
  attempt: Attempt<AgentReport>,
  { terms }: Asked,
): Task<ActivityEnd<AgentReport>> {
  const host = hostOf(agents, attempt as Attempt<never>);
  if (host === undefined) return REFUSED;
  yield* sleep(agents.site().kernel, 1);
  if (host.disk.state() === "read-only") return { kind: "failed", code: "UNAVAILABLE" };
  const atSinceBootMs = host.contact?.atSinceBootMs ?? host.sinceBootMs();
  const wallMs = host.contact?.wallMs ?? host.clock().wallMs;
  host.note({ terms, bootId: host.bootId(), atSinceBootMs, wallMs });
  host.answeredFromMs = Math.max(host.answeredFromMs, attempt.givenAtMs);
  const { tokens } = host;
  const running = [...host.launches.values()].flatMap(({ phase, order }) =>
    phase === "over" ? [] : [{ host: host.id, lease: factOf(order) }],
  );
  return {
    kind: "done",
    value: {
      agent: addressOf(host, attempt.process),
      hosts: [host.id],
      running,
      highestToken: Math.max(0, ...(tokens?.seen ?? []), ...(tokens?.revoked ?? [])),
    },
  };
}

const factOf = (order: RunOrder): AgentReport["running"][number]["lease"] => ({
  id: order.leaseId,
  token: order.token,
  jobId: order.jobId,
  gpus: order.gang.map(({ host, mask }) => ({ host, mask })),
  ...order.holder,
  ...(order.taskBatch !== undefined && { slots: order.taskBatch.slots }),
});

export function* keepContact(
  agents: Agents,
  attempt: Attempt<"ended">,
  { terms }: Asked,
): Task<ActivityEnd<"ended">> {
  const host = hostOf(agents, attempt as Attempt<never>);
  if (host !== undefined) attempt.process.spawn(heartbeats(agents, attempt, { host, terms }));
  yield* sleep(agents.site().kernel, 0);
  return { kind: "stays open" };
}

function* heartbeats(
  agents: Agents,
  attempt: Attempt<"ended">,
  { host, terms }: { readonly host: Host; readonly terms: PresenceTerms },
): Task<void> {
  const { kernel } = agents.site();
  const { process } = attempt;
  const count = counterOf(process);
  count.count += 1;
  for (;;) {
    const atSinceBootMs = host.sinceBootMs();
    const said = yield* attempt.beat();
    if (said === "forgotten" || said === "cancel") {
      count.count -= 1;
      if (said === "cancel") yield* attempt.finish({ kind: "cancelled" });
      else yield* announce(agents, host, process);
      return;
    }
    const last = host.contact?.atSinceBootMs ?? 0;
    if (said === "known" && atSinceBootMs >= last)
      host.note({ terms, bootId: host.bootId(), atSinceBootMs, wallMs: host.clock().wallMs });
    yield* sleep(kernel, terms.silenceMs / 3);
  }
}

export function counterOf(process: Process): { incarnation: number; count: number } {
  const known = contacts.get(process);
  if (known?.incarnation === process.incarnation()) return known;
  const fresh = { incarnation: process.incarnation(), count: 0 };
  contacts.set(process, fresh);
  return fresh;
}
