/**
 * @file Forged words to a fleet: entries of the right form whose content cannot be true.
 *
 * Tokens that jump, leases that were never given, hosts that nobody has, agents that never registered, times of the future.
 */

import { leaseId, token, type HostId } from "../../domain/values/ids.ts";

/** Far above the token of any fleet, and exact. */
const JUMP = 2 ** 51;
const FAR_MS = 4e12;
const AGENT = { epoch: "forged", runQueue: "q", orderQueue: "q", address: "127.0.0.1" };
const JOB = { jobId: "nobody", runId: "none" };

export function forgedEntries(hosts: readonly HostId[]): readonly unknown[] {
  const lease = leaseId(token(JUMP));
  const registered = { kind: "agent-registered", agent: AGENT, running: [], highestToken: 0 };
  const fact = {
    ...JOB,
    id: lease,
    token: JUMP,
    seq: 1,
    class: "training",
    tenant: "nobody",
    gpus: hosts.slice(0, 1).map((host) => ({ host, mask: 1 })),
    grantedAtMs: Date.now(),
    requestedAtMs: Date.now(),
  };
  return [
    { ...registered, hosts, highestToken: JUMP },
    { ...registered, hosts: ["no/such"], highestToken: 1 },
    { ...registered, hosts, running: hosts.map((host) => ({ host, lease, token: JUMP, fact })) },
    { kind: "assert", lease: fact },
    { kind: "vacated", lease, hosts },
    { kind: "silence", hosts, epoch: AGENT.epoch },
    { kind: "agent-deregistered", hosts, epoch: AGENT.epoch },
    { kind: "checkpointed", marks: [{ lease, atMs: FAR_MS }] },
    { ...JOB, kind: "end", seq: 2 ** 52, unconfirmedHosts: "all", lease },
  ];
}
