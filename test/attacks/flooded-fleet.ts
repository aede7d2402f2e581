/** @file The fleet that is flooded, the floods, and how long another tenant's jobs take meanwhile. */

import { expect } from "vitest";
import { attack, type Attack, type AttackTimes } from "../../bench/floods/attack.ts";
import type { DisbelievedSender } from "../../client/disbelieved.ts";
import type { World } from "../support/world.ts";

/** Both tenants are named, so each has guaranteed places. */
export const FLOODED_FLEET = `
name: floods
tenants: [{ name: bystander }, { name: attacker }]
clusters:
  - name: alpha
    site: here
    jurisdiction: EU
    simulated: true
    fabric: { bandwidth: 100 Gbps }
    hosts:
      - { name: "a[1-4]", gpus: 8, type: H100 }
`;

export const FLOODS: readonly Attack[] = [
  { flood: "constraints", count: 300, inFlight: 50 },
  { flood: "requests", count: 20_000, inFlight: 50 },
  { flood: "junk", count: 1_000, inFlight: 50 },
  { flood: "files", count: 20, inFlight: 50 },
  { flood: "calls", count: 200, inFlight: 50 },
  { flood: "jobs", count: 60, inFlight: 50 },
  { flood: "arrays", count: 20, inFlight: 50 },
];

/** A standstill lasts for ever; a machine that is busy with much else may take minutes. */
const NEVER_MS = 300_000;
/** Of a test of a flood, which times two jobs after it. */
export const FLOOD_TEST_MS = 4 * NEVER_MS;

/** With two jobs of the other tenant afterwards: the best of two counts, because machines have bad moments. */
export const flooded = (world: World, order: Attack): Promise<AttackTimes> =>
  attack(world, order, {
    address: world.address,
    label: `${world.fleet}-${order.flood}-${order.count}`,
    idleMs: [],
    jobsAfter: 2,
    neverMs: NEVER_MS,
  });

/** How soon they end is a bar of `bench floods`, on quiet cores. */
export function expectEnded({ duringMs, afterMs }: AttackTimes): void {
  expect(Math.max(...duringMs)).toBeLessThan(Infinity);
  expect(Math.min(...afterMs)).toBeLessThan(Infinity);
}

/** The audit has a line for each sender of junk, with how often: as often as the server took it, but for what is still on its way. */
export async function expectAudited(world: World, { taken }: AttackTimes): Promise<void> {
  const counted = async (): Promise<number> => {
    const { stdout } = await world.cli(["audit", "--json"]);
    const { words } = JSON.parse(stdout) as { readonly words: readonly DisbelievedSender[] };
    const ofJunk = words.filter(({ what, sender }) => what === "EntryMalformed" && sender !== "");
    return ofJunk.reduce((sum, { times }) => sum + times, 0);
  };
  await expect.poll(counted).toBeGreaterThan(0.9 * taken);
}
