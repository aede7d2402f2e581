/**
 * @file The agents that `up` starts here, the hosts whose agents must be started elsewhere, and the wait until the fleet knows
 * the former.
 */

import { setTimeout as sleep } from "node:timers/promises";
import type { Ledger, OrbweaverClient } from "../../client/index.ts";
import type { FleetShape } from "../../domain/fleet/fleet.ts";
import type { HostId } from "../../domain/values/ids.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";

export interface AgentPlace {
  readonly cluster: string;
  /** One host; absent for the one agent of a simulated cluster. */
  readonly host?: string;
  readonly serves: readonly HostId[];
}

export interface AgentPlaces {
  readonly here: readonly AgentPlace[];
  readonly elsewhere: readonly HostId[];
}

/** Agents for all of a simulated cluster, and in other clusters for the host that is this machine. */
export function placeAgents(shape: FleetShape, machine: string): AgentPlaces {
  const here: AgentPlace[] = [];
  const elsewhere: HostId[] = [];
  for (const { id: cluster, hosts, isSimulated } of shape.clusters) {
    if (isSimulated) {
      here.push({ cluster, serves: hosts.map(({ id }) => id) });
      continue;
    }
    for (const { id } of hosts) {
      const host = id.slice(id.indexOf("/") + 1);
      if (host === machine) here.push({ cluster, host, serves: [id] });
      else elsewhere.push(id);
    }
  }
  return { here, elsewhere };
}

const LOOK_EVERY_MS = 100;
const KNOWN_WITHIN_MS = 180_000;

/**
 * The fleet's ledger, from a worker that `up` may have only just started: one on demand begins when it is asked, and on a busy machine
 * that takes longer than a single question waits.
 */
export async function firstAnswer(
  client: Pick<OrbweaverClient, "fleet">,
  nowMs: () => number,
  endAtMs = nowMs() + KNOWN_WITHIN_MS,
): Promise<Ledger> {
  for (;;) {
    try {
      return await client.fleet();
    } catch (error) {
      const isLate = nowMs() > endAtMs;
      if (isLate || !(error instanceof OrbweaverError && error.code === "NO_CONNECTION"))
        throw error;
      await sleep(LOOK_EVERY_MS);
    }
  }
}

/** Waits until the agents of these hosts have registered with the fleet. */
export async function untilHostsKnown(
  client: OrbweaverClient,
  hosts: readonly HostId[],
  nowMs: () => number,
): Promise<void> {
  const endAtMs = nowMs() + KNOWN_WITHIN_MS;
  for (;;) {
    const missing = hostsWithoutAgent(await firstAnswer(client, nowMs, endAtMs), hosts);
    if (missing.length === 0) return;
    if (nowMs() > endAtMs) {
      throw new OrbweaverError(
        "NOT_ALLOWED",
        `the agents of ${missing.join(", ")} have not registered within ${String(KNOWN_WITHIN_MS / 1000)} s, although they run. See their logs.`,
      );
    }
    await sleep(LOOK_EVERY_MS);
  }
}

function hostsWithoutAgent({ hosts }: Ledger, wanted: readonly HostId[]): readonly HostId[] {
  return wanted.filter((host) => hosts.get(host)?.agent === undefined);
}
