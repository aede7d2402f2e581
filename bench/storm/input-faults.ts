/**
 * @file Faults that come in as input: junk and oversized signals, endless output, hosts that refuse, and jobs that people
 * terminate, cancel or reset, some at the instant of their grant.
 */

import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { nodeSystem } from "../../agent/system/node-system.ts";
import { hostLayout } from "../../agent/system/state-layout.ts";
import { fleetWorkflowId, presenceWorkflowId } from "../../protocol/messages.ts";
import type { Arrivals } from "./arrivals.ts";
import { sendJunk, sendOversized } from "./junk.ts";
import { meddle, untilGranted } from "./meddling.ts";
import { doneFault, lastingMs, oneOf, type Fault } from "./process-faults.ts";
import type { Step } from "./schedule.ts";
import { WORK_CLUSTERS, type Site } from "./site.ts";
import type { Meddling } from "./workload.ts";

const REFUSAL_MS = [1_000, 6_000] as const;

interface InputFaultsOptions {
  readonly arrivals: Arrivals;
  /** Given the end of each ambush, which waits for a grant. */
  readonly noteAmbush: (over: Promise<boolean>) => void;
}

/** Undefined when there is no target now, or when the kind belongs to another file. */
export async function harmByInput(
  site: Site,
  step: Step,
  options: InputFaultsOptions,
): Promise<Fault | undefined> {
  const { arrivals } = options;
  switch (step.kind) {
    case "terminate-job":
      return await meddleWithOne(site, { how: "terminated", step, arrivals });
    case "reset-job":
      return await meddleWithOne(site, { how: "reset", step, arrivals });
    case "cancel-job":
      return await meddleWithOne(site, { how: "cancelled", step, arrivals });
    case "terminate-at-grant":
      return ambush(site, { how: "terminated", step, ...options });
    case "reset-at-grant":
      return ambush(site, { how: "reset", step, ...options });
    case "cancel-at-grant":
      return ambush(site, { how: "cancelled", step, ...options });
    case "junk-to-fleet":
      return await junkTo(site, fleetWorkflowId(site.fleet), { step, name: "the fleet" });
    case "junk-to-job": {
      const job = oneOf(arrivals.meddlable(), step.share);
      return job && (await junkTo(site, job.id, { step, name: job.id }));
    }
    case "junk-to-presence": {
      const cluster = oneOf(WORK_CLUSTERS, step.share) ?? WORK_CLUSTERS[0];
      const id = presenceWorkflowId(site.fleet, cluster);
      return await junkTo(site, id, { step, name: `the presence of ${cluster}` });
    }
    case "oversized-signals":
      return await oversize(site, step, arrivals);
    case "flood-of-output": {
      const job = await arrivals.submit("flood");
      return doneFault(`${job.id} writes more output than the product keeps`);
    }
    case "refusing-host":
      return refuse(site, step);
    default:
      return undefined;
  }
}

interface Meddled {
  readonly how: Meddling;
  readonly step: Step;
  readonly arrivals: Arrivals;
}

async function meddleWithOne(
  site: Site,
  { how, step, arrivals }: Meddled,
): Promise<Fault | undefined> {
  const job = oneOf(arrivals.meddlable(), step.share);
  if (job === undefined) return undefined;
  const isDone = await meddle(site, job, { how, share: step.size });
  return isDone ? doneFault(`${job.id} ${how}`) : undefined;
}

function ambush(
  site: Site,
  { how, step, arrivals, noteAmbush }: Meddled & InputFaultsOptions,
): Fault {
  const lie = async (): Promise<boolean> => {
    const job = await arrivals.submit("ambushed");
    const isGranted = await untilGranted(site, job.id);
    return isGranted && (await meddle(site, job, { how, share: step.share }));
  };
  noteAmbush(lie());
  return doneFault(`a job is ${how} at the instant of its grant`);
}

async function junkTo(
  site: Site,
  workflowId: string,
  { step, name }: { readonly step: Step; readonly name: string },
): Promise<Fault> {
  const taken = await sendJunk(site.client, workflowId, step);
  return doneFault(`${String(taken)} junk signals to ${name}`);
}

async function oversize(site: Site, step: Step, arrivals: Arrivals): Promise<Fault> {
  const job = oneOf(arrivals.meddlable(), step.size);
  const targets = [
    [fleetWorkflowId(site.fleet), "inbox"],
    [presenceWorkflowId(site.fleet, WORK_CLUSTERS[0]), "announce"],
    ...(job === undefined ? [] : [[job.id, "grant"] as const]),
  ] as const;
  const [workflowId, name] = oneOf(targets, step.share) ?? targets[0];
  const taken = await sendOversized(site.client, workflowId, name);
  return doneFault(`${String(taken)} oversized signals to ${workflowId}`);
}

/** The host refuses by the file that an operator would write. */
function refuse(site: Site, { share, size }: Step): Fault | undefined {
  const hosts = site.agents.flatMap((agent) => agent.hosts);
  const host = oneOf(hosts, share);
  if (host === undefined) return undefined;
  const { dir, refuse: file } = hostLayout(nodeSystem.files, {
    stateDir: site.stateDir,
    fleet: site.fleet,
    id: host,
  });
  if (existsSync(file)) return undefined;
  mkdirSync(dir, { recursive: true });
  writeFileSync(file, "the storm");
  const forMs = lastingMs(REFUSAL_MS, size);
  return {
    what: `${host} refuses to start any process for ${String(forMs)} ms`,
    over: sleep(forMs).then(() => rmSync(file, { force: true })),
  };
}
