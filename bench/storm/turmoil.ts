/**
 * @file The storm while it lasts: jobs arrive, and one step of the schedule after another is carried out.
 *
 * Faults overlap, but for those whose recovery is measured: before the server is taken away or the fleet is terminated nothing else
 * of the control plane may be down, and the next step waits for the first grant.
 */

import { appendFileSync, existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { hostLayout } from "../../activities/agent/state-layout.ts";
import { fleetWorkflowId, presenceWorkflowId } from "../../workflows/messages.ts";
import type { Draw } from "../statistics.ts";
import { insist } from "./insistence.ts";
import { sendJunk, sendOversized } from "./junk.ts";
import { meddle, untilGranted } from "./meddling.ts";
import { harm, lastingMs, oneOf, type Fault } from "./process-faults.ts";
import { untilGrant } from "./recovery.ts";
import type { FaultKind, Step } from "./schedule.ts";
import { SILENCE_MS, WORK_CLUSTERS, type Site } from "./site.ts";
import { drawKind, stormJob, type JobKind, type Meddling, type StormJob } from "./workload.ts";

export interface Recovery {
  readonly of: "server" | "fleet";
  readonly ms: number;
}

export interface Turmoil {
  readonly jobs: readonly StormJob[];
  readonly counts: ReadonlyMap<FaultKind, number>;
  readonly recoveries: readonly Recovery[];
}

export interface TurmoilSetting {
  readonly steps: readonly Step[];
  /** Jobs that wait or run at a time. */
  readonly openJobs: number;
  /** Draws the jobs. */
  readonly draw: Draw;
  readonly say: (line: string) => void;
  readonly interrupted: AbortSignal;
}

const LOOK_MS = 400;
const RECOVERY_LIMIT_MS = 60_000;
const CALM_WITHIN_MS = 30_000;
/** A server that is only killed is back at once. */
const SERVER_PAUSE_MS = [0, 1_500] as const;
const SERVER_DOWN_MS = [1.4 * SILENCE_MS, 3 * SILENCE_MS] as const;
const REFUSAL_MS = [1_000, 6_000] as const;
const HOLD_MS = 3_000;

export async function turmoil(site: Site, setting: TurmoilSetting): Promise<Turmoil> {
  const { steps, openJobs, draw, say, interrupted } = setting;
  const jobs: StormJob[] = [];
  const counts = new Map<FaultKind, number>();
  const recoveries: Recovery[] = [];
  /** Harm that still lasts, and ambushes that wait for a grant. */
  const lasting = new Set<Promise<void>>();
  const ambushes: Promise<void>[] = [];
  const startedAtMs = Date.now();
  let isOver = false;
  let isServerUp = true;

  const note = (step: Step, what: string): void => {
    const line = { atMs: Date.now() - startedAtMs, kind: step.kind, what };
    appendFileSync(join(site.folder, "faults.jsonl"), `${JSON.stringify(line)}\n`);
    counts.set(step.kind, (counts.get(step.kind) ?? 0) + 1);
    const count = [...counts.values()].reduce((sum, each) => sum + each, 0);
    say(`${String(count)}/${String(steps.length)} ${what}`);
  };

  let failure: unknown;
  const arrivals = arrive().catch((error: unknown) => (failure = error));
  try {
    await sleep(LOOK_MS * 5);
    for (const step of steps) {
      if (interrupted.aborted) throw interrupted.reason;
      if (failure !== undefined) throw failure;
      await sleep(step.gapMs);
      await carryOut(step);
    }
    await Promise.all([...lasting, ...ambushes]);
  } finally {
    isOver = true;
    await arrivals;
  }
  if (failure !== undefined) throw failure;
  return { jobs, counts, recoveries };

  async function submit(kind: JobKind): Promise<StormJob> {
    const job = stormJob(site, kind, jobs.length, draw);
    jobs.push(job);
    await insist(site.client, () => site.orbweaver.submit(job.file, { idempotencyKey: job.id }));
    return job;
  }

  /** Keeps so many jobs open, and lets go of those that are held. */
  async function arrive(): Promise<void> {
    const heldSince = new Map<string, number>();
    while (!isOver) {
      await sleep(LOOK_MS);
      if (!isServerUp) continue;
      const open = jobs.filter(({ isClosed }) => !isClosed);
      await Promise.all(open.map(look));
      const room = openJobs - jobs.filter(({ isClosed }) => !isClosed).length;
      await Promise.all(
        Array.from({ length: Math.max(0, Math.min(room, 4)) }, () => submit(drawKind(draw))),
      );
      for (const job of jobs.filter(({ isHeld, isClosed }) => isHeld && !isClosed)) {
        const sinceMs = heldSince.get(job.id) ?? Date.now();
        heldSince.set(job.id, sinceMs);
        if (Date.now() - sinceMs > HOLD_MS) void letGo(site, job);
      }
    }
  }

  async function look(job: StormJob): Promise<void> {
    const described = await site.client
      .withDeadline(Date.now() + 2_000, () => site.client.workflow.getHandle(job.id).describe())
      .catch(() => undefined);
    if (described !== undefined) job.isClosed = described.status.name !== "RUNNING";
  }

  async function carryOut(step: Step): Promise<void> {
    for (;;) {
      const fault = (await harm(site, step)) ?? (await trouble(step));
      if (fault !== undefined) {
        note(step, fault.what);
        const over = fault.over.catch((error: unknown) => say(`${fault.what}: ${String(error)}`));
        lasting.add(over);
        void over.then(() => lasting.delete(over));
        return;
      }
      if (interrupted.aborted) throw interrupted.reason;
      await sleep(LOOK_MS);
    }
  }

  async function trouble(step: Step): Promise<Fault | undefined> {
    const { client } = site;
    switch (step.kind) {
      case "server-killed":
        return await takeServer(lastingMs(SERVER_PAUSE_MS, step.size));
      case "server-down-past-silence":
        return await takeServer(lastingMs(SERVER_DOWN_MS, step.size));
      case "terminate-fleet":
        return await terminateFleet();
      case "terminate-job":
        return await meddleWithOne("terminated", step);
      case "reset-job":
        return await meddleWithOne("reset", step);
      case "cancel-job":
        return await meddleWithOne("cancelled", step);
      case "terminate-at-grant":
        return ambush("terminated", step);
      case "reset-at-grant":
        return ambush("reset", step);
      case "cancel-at-grant":
        return ambush("cancelled", step);
      case "junk-to-fleet": {
        const taken = await sendJunk(client, fleetWorkflowId(site.fleet), step);
        return done(`${String(taken)} junk signals to the fleet`);
      }
      case "junk-to-job": {
        const job = oneOf(meddlable(), step.share);
        if (job === undefined) return undefined;
        const taken = await sendJunk(client, job.id, step);
        return done(`${String(taken)} junk signals to ${job.id}`);
      }
      case "junk-to-presence": {
        const cluster = oneOf(WORK_CLUSTERS, step.share) ?? WORK_CLUSTERS[0];
        const taken = await sendJunk(client, presenceWorkflowId(site.fleet, cluster), step);
        return done(`${String(taken)} junk signals to the presence of ${cluster}`);
      }
      case "oversized-signals":
        return await oversize(step);
      case "flood-of-output": {
        const job = await submit("flood");
        return done(`${job.id} writes more than is kept`);
      }
      case "refusing-host":
        return refuse(step);
      default:
        return undefined;
    }
  }

  function meddlable(): readonly StormJob[] {
    return jobs.filter(
      ({ isClosed, meddling, kind }) =>
        !isClosed && meddling === undefined && kind !== "probe" && kind !== "ambushed",
    );
  }

  async function meddleWithOne(how: Meddling, step: Step): Promise<Fault | undefined> {
    const job = oneOf(meddlable(), step.share);
    if (job === undefined) return undefined;
    const isDone = await meddle(site, job, { how, share: step.size });
    return isDone ? done(`${job.id} ${how}`) : undefined;
  }

  function ambush(how: Meddling, { share }: Step): Fault {
    const lie = async (): Promise<void> => {
      const job = await submit("ambushed");
      if (await untilGranted(site, job.id)) await meddle(site, job, { how, share });
    };
    const lying = lie().catch((error: unknown) => say(`ambush: ${String(error)}`));
    ambushes.push(lying);
    return done(`a job is ${how} at the instant of its grant`);
  }

  async function oversize(step: Step): Promise<Fault | undefined> {
    const job = oneOf(meddlable(), step.size);
    const targets = [
      [fleetWorkflowId(site.fleet), "inbox"],
      [presenceWorkflowId(site.fleet, WORK_CLUSTERS[0]), "here"],
      ...(job === undefined ? [] : [[job.id, "grant"] as const]),
    ] as const;
    const [workflowId, name] = oneOf(targets, step.share) ?? targets[0];
    const taken = await sendOversized(site.client, workflowId, name);
    return done(`${String(taken)} oversized signals to ${workflowId}`);
  }

  /** The host says no by the file that a person would write. */
  function refuse({ share, size }: Step): Fault | undefined {
    const hosts = site.agents.flatMap((agent) => agent.hosts);
    const host = oneOf(hosts, share);
    if (host === undefined) return undefined;
    const { dir, refuse: file } = hostLayout(site.stateDir, site.fleet, host);
    if (existsSync(file)) return undefined;
    mkdirSync(dir, { recursive: true });
    writeFileSync(file, "the storm");
    const forMs = lastingMs(REFUSAL_MS, size);
    return {
      what: `${host} refuses to start anything for ${String(forMs)} ms`,
      over: sleep(forMs).then(() => rmSync(file, { force: true })),
    };
  }

  /** All that was harmed is whole again, and the control plane says that it is there. */
  async function calm(): Promise<void> {
    await Promise.all(lasting);
    const control = [site.fleetWorker, site.jobsWorker];
    await Promise.all(control.map((keeper) => keeper.ready(CALM_WITHIN_MS)));
  }

  async function takeServer(forMs: number): Promise<Fault> {
    await calm();
    isServerUp = false;
    await site.killServer();
    await sleep(forMs);
    await site.bootServer();
    const backAtMs = Date.now();
    isServerUp = true;
    return await recovered("server", backAtMs, `kill -9 the server, down for ${String(forMs)} ms`);
  }

  async function terminateFleet(): Promise<Fault | undefined> {
    await calm();
    const handle = site.client.workflow.getHandle(fleetWorkflowId(site.fleet));
    const done = await insist(site.client, () => handle.terminate("the storm").then(() => true));
    if (done === undefined) return undefined;
    return await recovered("fleet", Date.now(), "the fleet is terminated");
  }

  async function recovered(of: Recovery["of"], sinceMs: number, what: string): Promise<Fault> {
    const probe = submit("probe");
    const ms = await untilGrant(site, sinceMs, RECOVERY_LIMIT_MS);
    recoveries.push({ of, ms });
    await probe;
    return done(`${what}; granted again after ${String(ms)} ms`);
  }
}

const done = (what: string): Fault => ({ what, over: Promise.resolve() });

export async function letGo(site: Site, job: StormJob): Promise<void> {
  const asked = await insist(site.client, () => site.orbweaver.job(job.id).release()).catch(
    () => undefined,
  );
  if (asked !== undefined) job.isHeld = false;
}
