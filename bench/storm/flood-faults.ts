/**
 * @file Faults that come in large numbers or with false content: floods of junk, of long constraints, of large arrays and of large job files, and forged words.
 *
 * The jobs of a flood are no jobs of the storm. The storm cancels those that wait, and the flood is over when every one of them has ended.
 */

import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { fleetWorkflowId, inboxSignal } from "../../protocol/messages.ts";
import type { FloodSize, FloodTarget } from "../floods/flood.ts";
import { FLOODS } from "../floods/floods.ts";
import { forgedEntries } from "../floods/forged.ts";
import { insist } from "./insistence.ts";
import { doneFault, lastingMs, type Fault } from "./process-faults.ts";
import type { Step } from "./schedule.ts";
import type { Site } from "./site.ts";

/** Least and most; a storm has many. */
const JUNK = [200, 1_500] as const;
const WAITING_JOBS = [20, 60] as const;
const LARGE_FILES = [2, 8] as const;
const ARRAYS = [2, 8] as const;
const IN_FLIGHT = 20;
/** How long the jobs of a flood wait before they are cancelled. */
const WAIT_MS = [2_000, 8_000] as const;
const LOOK_MS = 500;

/** Undefined when the kind belongs to another file. */
export async function harmByFlood(site: Site, step: Step): Promise<Fault | undefined> {
  const target: FloodTarget = {
    fleet: site.fleet,
    temporal: site.client,
    orbweaver: site.orbweaver,
  };
  const sized = ([least, most]: readonly [number, number]): FloodSize => ({
    count: Math.round(least + step.size * (most - least)),
    inFlight: IN_FLIGHT,
    label: `flood-${randomUUID().slice(0, 8)}`,
  });
  switch (step.kind) {
    case "flood-of-junk": {
      const size = sized(JUNK);
      return lasting(`${String(size.count)} junk signals`, FLOODS.junk(target, size));
    }
    case "flood-of-constraints": {
      const size = sized(WAITING_JOBS);
      const forMs = lastingMs(WAIT_MS, step.share);
      const flood = FLOODS.constraints(target, size)
        .then(() => sleep(forMs))
        .then(() => end(site, size, "cancel"));
      return lasting(`${String(size.count)} jobs with 7 KiB of constraints`, flood);
    }
    case "flood-of-arrays": {
      const size = sized(ARRAYS);
      const forMs = lastingMs(WAIT_MS, step.share);
      const flood = FLOODS.arrays(target, size)
        .then(() => sleep(forMs))
        .then(() => end(site, size, "cancel"));
      return lasting(`${String(size.count)} arrays of 100,000 tasks`, flood);
    }
    case "flood-of-large-files": {
      const size = sized(LARGE_FILES);
      const flood = FLOODS.files(target, size).then(() => end(site, size, "refused"));
      return lasting(`${String(size.count)} job files of a megabyte`, flood);
    }
    case "forged-words": {
      const entries = forgedEntries(site.hosts);
      const handle = site.client.workflow.getHandle(fleetWorkflowId(site.fleet));
      await insist(site.client, () => handle.signal(inboxSignal, entries));
      return doneFault(`${String(entries.length)} forged words to the fleet`);
    }
    default:
      return undefined;
  }
}

const lasting = (what: string, over: Promise<unknown>): Fault => ({
  what,
  over: over.then(() => undefined),
});

/** Resolves when all jobs of a flood have ended: by the fleet's refusal, or because the storm cancels them. */
async function end(
  { client }: Site,
  { count, label }: FloodSize,
  how: "cancel" | "refused",
): Promise<void> {
  for (let index = 0; index < count; index += 1) {
    const handle = client.workflow.getHandle(`${label}-${String(index)}`);
    if (how === "cancel") await insist(client, () => handle.cancel());
    for (;;) {
      const described = await insist(client, () => handle.describe());
      if (described?.status.name !== "RUNNING") break;
      await sleep(LOOK_MS);
    }
  }
}
