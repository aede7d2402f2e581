/**
 * @file One attack on a live fleet: the bystander's jobs on the idle fleet, while the flood lasts, and after it.
 *
 * The flood comes from a process of its own. It lasts until its last call was answered; jobs and requests that it has left stay where they are.
 */

import { fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { packageRoot } from "../../workers/server/package-root.ts";
import type { AttackOrder } from "./attacker.ts";
import { openBystander, timedJobs, type Patience } from "./bystander.ts";
import type { FloodTarget } from "./flood.ts";
import type { FloodName } from "./floods.ts";

export interface Attack {
  readonly flood: FloodName;
  readonly count: number;
  readonly inFlight: number;
}

export interface AttackTimes {
  /** Calls, jobs or entries that the server took. */
  readonly taken: number;
  readonly floodMs: number;
  /** Of the bystander's jobs, from submit call to end, in milliseconds. */
  readonly idleMs: readonly number[];
  readonly duringMs: readonly number[];
  readonly afterMs: readonly number[];
}

export interface AttackSetting extends Patience {
  readonly address: string;
  readonly label: string;
  readonly idleMs: readonly number[];
  /** Jobs timed after it. */
  readonly jobsAfter: number;
}

export async function attack(
  target: FloodTarget,
  { flood, count, inFlight }: Attack,
  { address, label, idleMs, jobsAfter, neverMs }: AttackSetting,
): Promise<AttackTimes> {
  const bystander = openBystander(target, { label: `${label}-during`, neverMs });
  const startedAtMs = performance.now();
  const taken = await flooded({
    flood,
    count,
    inFlight,
    label: `${label}-flood`,
    address,
    fleet: target.fleet,
  });
  const floodMs = performance.now() - startedAtMs;
  const duringMs = await bystander.stop();
  const afterMs = await timedJobs(target, { count: jobsAfter, label: `${label}-after`, neverMs });
  return { taken, floodMs, idleMs, duringMs, afterMs };
}

async function flooded(order: AttackOrder): Promise<number> {
  const file = join(packageRoot(), "dist", "bench", "floods", "attacker.js");
  const child = fork(file, [JSON.stringify(order)], {
    stdio: ["ignore", "ignore", "inherit", "ipc"],
  });
  const kill = (): void => void child.kill("SIGKILL");
  process.once("exit", kill);
  let taken: number | undefined;
  child.once("message", (message: { readonly taken: number }) => {
    ({ taken } = message);
  });
  await once(child, "exit");
  process.off("exit", kill);
  if (taken === undefined) throw new Error(`the flood ${order.flood} ended without an answer`);
  return taken;
}
