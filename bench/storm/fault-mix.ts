/**
 * @file The faults of a storm: carries out one step of the schedule after the other while jobs arrive.
 *
 * Faults overlap, except those whose recovery is measured (`control-faults.ts`). A step whose target does not exist yet waits for it.
 */

import { appendFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { openArrivals, type ArrivalsOptions } from "./arrivals.ts";
import { harmControl, type Recovery } from "./control-faults.ts";
import { harmByFlood } from "./flood-faults.ts";
import { harmByInput } from "./input-faults.ts";
import { harm, type Fault } from "./process-faults.ts";
import type { FaultKind, Step } from "./schedule.ts";
import type { Site } from "./site.ts";
import { harmByUpgrade } from "./upgrade-fault.ts";
import type { StormJob } from "./workload.ts";

export interface FaultMix {
  readonly jobs: readonly StormJob[];
  readonly counts: ReadonlyMap<FaultKind, number>;
  readonly recoveries: readonly Recovery[];
}

interface FaultMixOptions extends ArrivalsOptions {
  readonly steps: readonly Step[];
  readonly say: (line: string) => void;
  readonly interrupted: AbortSignal;
}

const LOOK_MS = 400;

export async function faultMix(site: Site, options: FaultMixOptions): Promise<FaultMix> {
  const { steps, say, interrupted } = options;
  const arrivals = openArrivals(site, options);
  const counts = new Map<FaultKind, number>();
  const recoveries: Recovery[] = [];
  /** Faults that still last, and ambushes that wait for a grant. */
  const lasting = new Set<Promise<unknown>>();
  const ambushes: Promise<unknown>[] = [];
  const startedAtMs = Date.now();

  const controlOptions = {
    arrivals,
    untilMended: () => Promise.all(lasting),
    noteRecovery: (recovery: Recovery) => void recoveries.push(recovery),
  };
  const inputOptions = {
    arrivals,
    noteAmbush: (over: Promise<unknown>) =>
      void ambushes.push(over.catch((error: unknown) => say(`ambush: ${String(error)}`))),
  };

  const note = (step: Step, what: string): void => {
    const line = { atMs: Date.now() - startedAtMs, kind: step.kind, what };
    appendFileSync(join(site.folder, "faults.jsonl"), `${JSON.stringify(line)}\n`);
    counts.set(step.kind, (counts.get(step.kind) ?? 0) + 1);
    const count = [...counts.values()].reduce((sum, each) => sum + each, 0);
    say(`${String(count)}/${String(steps.length)} ${what}`);
  };

  const keep = ({ what, over }: Fault): void => {
    const end = over.catch((error: unknown) => say(`${what}: ${String(error)}`));
    lasting.add(end);
    void end.then(() => lasting.delete(end));
  };

  async function carryOut(step: Step): Promise<void> {
    for (;;) {
      const fault =
        (await harm(site, step)) ??
        (await harmControl(site, step, controlOptions)) ??
        (await harmByInput(site, step, inputOptions)) ??
        (await harmByFlood(site, step)) ??
        harmByUpgrade(site, step);
      if (fault !== undefined) {
        note(step, fault.what);
        keep(fault);
        return;
      }
      if (interrupted.aborted) throw interrupted.reason;
      await sleep(LOOK_MS);
    }
  }

  let failure: unknown;
  const arriving = arrivals.run().catch((error: unknown) => (failure = error));
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
    arrivals.stop();
    await arriving;
  }
  if (failure !== undefined) throw failure;
  return { jobs: arrivals.jobs, counts, recoveries };
}
