/**
 * @file An upgrade in the middle of a storm: the control workers are replaced one after the other, then the newest rules are committed, while
 * jobs arrive and other faults last.
 *
 * The fleet of such a storm begins with the rules before the newest. Workers are stopped as docs/upgrade.md says: one that is killed in a workflow task
 * leaves it to the server's timeout, which waits for the end of a flood that lasts (docs/decisions/0119-flooded-tasks-end.md). The commit is repeated
 * until the fleet follows the rules, as an operator would; after the first upgrade only workers are replaced.
 */

import { setTimeout as sleep } from "node:timers/promises";
import { isGoneHere } from "../../cli/verbs/fleet/upgrade.ts";
import { upgradeFleet } from "../../client/rules/upgrade-fleet.ts";
import { NEWEST_RULES } from "../../scheduling/ledger/ledger.ts";
import type { Fault } from "./process-faults.ts";
import type { Step } from "./schedule.ts";
import type { Site } from "./site.ts";

const READY_WITHIN_MS = 30_000;
const COMMITTED_WITHIN_MS = 420_000;
const PAUSE_MS = 1_000;

/** Undefined when the kind belongs to another file. */
export const harmByUpgrade = (site: Site, { kind }: Step): Fault | undefined =>
  kind === "upgrade"
    ? { what: `the workers are replaced, and rules ${NEWEST_RULES} committed`, over: upgrade(site) }
    : undefined;

async function upgrade(site: Site): Promise<void> {
  for (const worker of [site.fleetWorker, site.jobsWorker]) {
    await worker.stop();
    await worker.ready(READY_WITHIN_MS);
  }
  const endAtMs = Date.now() + COMMITTED_WITHIN_MS;
  for (;;) {
    try {
      await upgradeFleet(site.client, site.fleet, { nowMs: Date.now(), isGone: isGoneHere });
      return;
    } catch (error) {
      // Whatever else lasts may prevent it for a while: the server or a worker is away, the fleet recovers.
      if (Date.now() > endAtMs) throw error;
    }
    await sleep(PAUSE_MS);
  }
}
