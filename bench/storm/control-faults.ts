/**
 * @file Faults of the control plane whose recovery is measured: the server is taken away, or the fleet workflow is terminated.
 *
 * Before each the storm waits until no other part of the control plane is down, and after it until the first grant.
 */

import { setTimeout as sleep } from "node:timers/promises";
import { fleetWorkflowId } from "../../protocol/messages.ts";
import type { Arrivals } from "./arrivals.ts";
import { insist } from "./insistence.ts";
import { doneFault, lastingMs, type Fault } from "./process-faults.ts";
import { untilGrant } from "./recovery.ts";
import type { Step } from "./schedule.ts";
import { SILENCE_MS, type Site } from "./site.ts";

export interface Recovery {
  readonly of: "server" | "fleet";
  readonly ms: number;
}

interface ControlFaultsOptions {
  readonly arrivals: Arrivals;
  /** Resolves when no earlier fault lasts any more. */
  readonly untilMended: () => Promise<unknown>;
  readonly noteRecovery: (recovery: Recovery) => void;
}

/** Far beyond the bars, so that a busy machine is slow here, and not without a grant. */
const RECOVERY_LIMIT_MS = 180_000;
const CALM_WITHIN_MS = 30_000;
/** A server that is only killed is back at once. */
const SERVER_PAUSE_MS = [0, 1_500] as const;
const SERVER_DOWN_MS = [1.4 * SILENCE_MS, 3 * SILENCE_MS] as const;

/** Undefined when the kind belongs to another file, or when there is no fleet to terminate. */
export async function harmControl(
  site: Site,
  { kind, size }: Step,
  options: ControlFaultsOptions,
): Promise<Fault | undefined> {
  switch (kind) {
    case "server-killed":
      return await takeServer(site, lastingMs(SERVER_PAUSE_MS, size), options);
    case "server-down-past-silence":
      return await takeServer(site, lastingMs(SERVER_DOWN_MS, size), options);
    case "terminate-fleet":
      return await terminateFleet(site, options);
    default:
      return undefined;
  }
}

/** Every earlier fault has ended, and the control plane answers. */
async function calm(site: Site, { untilMended }: ControlFaultsOptions): Promise<void> {
  await untilMended();
  const control = [site.fleetWorker, site.jobsWorker];
  await Promise.all(control.map((supervisor) => supervisor.ready(CALM_WITHIN_MS)));
}

async function takeServer(
  site: Site,
  forMs: number,
  options: ControlFaultsOptions,
): Promise<Fault> {
  await calm(site, options);
  options.arrivals.pause();
  await site.killServer();
  await sleep(forMs);
  await site.bootServer();
  const backAtMs = Date.now();
  options.arrivals.resume();
  const ms = await recovered(site, { of: "server", sinceMs: backAtMs }, options);
  return doneFault(
    `kill -9 the server, down for ${String(forMs)} ms; granted again after ${String(ms)} ms`,
  );
}

async function terminateFleet(
  site: Site,
  options: ControlFaultsOptions,
): Promise<Fault | undefined> {
  await calm(site, options);
  const handle = site.client.workflow.getHandle(fleetWorkflowId(site.fleet));
  const isDone = await insist(site.client, () => handle.terminate("the storm").then(() => true));
  if (isDone === undefined) return undefined;
  const ms = await recovered(site, { of: "fleet", sinceMs: Date.now() }, options);
  return doneFault(`the fleet is terminated; granted again after ${String(ms)} ms`);
}

/** Milliseconds until a probe job was granted. */
async function recovered(
  site: Site,
  { of, sinceMs }: { readonly of: Recovery["of"]; readonly sinceMs: number },
  { arrivals, noteRecovery }: ControlFaultsOptions,
): Promise<number> {
  const probe = arrivals.submit("probe");
  const ms = await untilGrant(site, sinceMs, RECOVERY_LIMIT_MS);
  noteRecovery({ of, ms });
  await probe;
  return ms;
}
