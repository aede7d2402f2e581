/**
 * @file An agent's start on a host whose state folder was lost or does not hold its tokens. It ends launches that the folder does not know, and
 * asks the fleet whether it knows the host, and if so, which tokens it has given.
 *
 * No order under a former token may start there: each GPU has seen the token of its present lease, or every token that the fleet ever gave. That holds of
 * a host that the fleet does not know as well: it may be new, or one that was fenced. Until the fleet has answered, the host starts nothing.
 */

import { isGrpcServiceError, type Client } from "@temporalio/client";
import { WorkflowNotFoundError } from "@temporalio/common";
import type { AgentHost } from "../agent/runs/agent-host.ts";
import { removeLeftGroups, takeOverGroups } from "../agent/runs/host-groups.ts";
import { endStrays } from "../agent/runs/stray-launches.ts";
import { ownerName } from "../agent/system/state-layout.ts";
import { nodeClock } from "../agent/system/node-clock.ts";
import type { HostId } from "../domain/values/ids.ts";
import { fleetWorkflowId, hostQuery, ledgerQuery } from "../protocol/messages.ts";
import { unpackLedger } from "../scheduling/ledger/codec.ts";
import { takenGpus } from "../scheduling/ledger/rules/usage.ts";

const RETRY_MS = 2_000;
const CALL_MS = 10_000;
/** PERMISSION_DENIED, UNIMPLEMENTED, UNAUTHENTICATED. */
const CLOSED_TO_US = new Set([7, 12, 16]);

export interface HealPorts {
  readonly client: Client;
  readonly fleet: string;
  readonly closing: AbortSignal;
  readonly onNote: (note: string) => void;
}

/** Returns when the host's tokens are known and on the disk, or when the agent ends. */
export async function healTokens(
  { id, gpuCount, tokens }: Pick<AgentHost, "id" | "gpuCount" | "tokens">,
  { client, fleet, closing, onNote }: HealPorts,
): Promise<void> {
  const { lost } = tokens;
  while (!closing.aborted) {
    try {
      const given = await tokensGiven(client, fleet, { id, gpuCount });
      await tokens.heal(given?.seen ?? []);
      if (given?.isKnown === true)
        onNote(
          `${id}: the fleet knows this host, but its state folder ${lost === "broken" ? "holds no tokens that can be read" : "is empty"}. Its tokens were taken from the fleet; launches that it no longer knew were ended.`,
        );
      return;
    } catch {
      // No answer is no knowledge: the host waits for one.
      await nodeClock.pause(RETRY_MS, closing);
    }
  }
}

interface Given {
  /** The highest token that each GPU may have seen. */
  readonly seen: readonly number[];
  /** The fleet has an agent of this host. */
  readonly isKnown: boolean;
}

/** Undefined where the fleet is new. */
async function tokensGiven(
  client: Client,
  fleet: string,
  { id, gpuCount }: { readonly id: HostId; readonly gpuCount: number },
): Promise<Given | undefined> {
  const workflow = client.workflow.getHandle(fleetWorkflowId(fleet));
  const withinTime = <T>(call: () => Promise<T>): Promise<T> =>
    client.withAbortSignal(AbortSignal.timeout(CALL_MS), call);
  let isKnown: boolean;
  try {
    isKnown = (await withinTime(() => workflow.query(hostQuery, id))) !== null;
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return undefined;
    throw error;
  }
  const ledger = unpackLedger(await withinTime(() => workflow.query(ledgerQuery)));
  // A vacating lease has no GPUs any more on the hosts that have confirmed: a later one had them since, and has ended.
  const leased = [...ledger.leases.values()].flatMap((lease) =>
    takenGpus(lease).flatMap(({ host, mask }) =>
      host === id ? [{ token: lease.token, mask }] : [],
    ),
  );
  const seen = Array.from({ length: gpuCount }, (_, gpu) => {
    const lease = leased.find(({ mask }) => (mask >>> gpu) % 2 === 1);
    return lease?.token ?? ledger.nextToken - 1;
  });
  return { seen, isKnown };
}

/**
 * Names each host of this fleet among all that agents of one machine serve. The namespace's id is unique, where names of fleets and
 * namespaces repeat from server to server; a server that keeps the id from this client leaves the name.
 */
export async function hostOwners(client: Client, fleet: string): Promise<(host: HostId) => string> {
  const { namespace } = client.options;
  const { namespaceInfo } = await client.workflowService
    .describeNamespace({ namespace })
    .catch((error: unknown) => {
      if (isGrpcServiceError(error) && CLOSED_TO_US.has(error.code)) return { namespaceInfo: null };
      throw error;
    });
  return (host) => ownerName([namespaceInfo?.id ?? namespace, fleet, host]);
}

/**
 * Before the agent says hello: nothing of a launch that it does not know may run beside what it starts. Groups that other agents left on this machine
 * go as well.
 */
export async function endAndSayStrays(
  hosts: readonly AgentHost[],
  onNote: (note: string) => void,
): Promise<void> {
  for (const host of hosts) takeOverGroups(host);
  for (const { host, processes, groups } of await endStrays(hosts)) {
    const named = groups.length === 0 ? "" : ` (${groups.join(", ")})`;
    onNote(
      `${host}: ended ${processes} processes of launches${named} that its state folder does not know`,
    );
  }
  const removed = removeLeftGroups(hosts);
  if (removed > 0)
    onNote(
      `removed ${removed} groups without processes, of launches whose agents have ended on this machine`,
    );
}
