/**
 * @file The simulated clock and the events that are still to happen.
 *
 * Events at one time happen in the order of their ranks: facts first, then what was decided, then the cycle that reads both, then
 * samples. Equal ranks keep the order in which they were entered. Cost: O(log n) an event.
 */

import type { Plan } from "../domain/lease/plan.ts";
import type { HostId, LeaseId } from "../domain/values/ids.ts";
import { eventQueue, type EventQueue } from "../lib/event-queue.ts";
import type { JobState } from "./job-state.ts";

/** An event of a job counts only while the job's `version` is the one that it was entered with. */
interface OfJob {
  readonly job: JobState;
  readonly version: number;
}

export type SimulationEvent =
  | ({ readonly kind: "progress" | "end" | "crash" | "yielded" } & OfJob)
  | ({ readonly kind: "order"; readonly lease: LeaseId } & OfJob)
  | { readonly kind: "host-fails" }
  | { readonly kind: "host-back"; readonly host: HostId }
  | { readonly kind: "sample" }
  | { readonly kind: "cycle" }
  | { readonly kind: "decided"; readonly plan: Plan; readonly decidedAtMs: number };

const FACT = 0;
const DECIDED = 1;
const CYCLE = 2;
const SAMPLE = 3;

const RANKS: Readonly<Record<SimulationEvent["kind"], number>> = Object.freeze({
  progress: FACT,
  end: FACT,
  crash: FACT,
  yielded: FACT,
  order: FACT,
  "host-fails": FACT,
  "host-back": FACT,
  decided: DECIDED,
  cycle: CYCLE,
  sample: SAMPLE,
});

export interface Agenda {
  readonly nowMs: () => number;
  /** The clock never goes back. */
  readonly advance: (toMs: number) => void;
  readonly enter: (atMs: number, event: SimulationEvent) => void;
  /** Infinite when there is none. */
  readonly nextAtMs: () => number;
  readonly take: () => SimulationEvent | undefined;
}

export function openAgenda(): Agenda {
  const queue: EventQueue<SimulationEvent> = eventQueue();
  let nowMs = 0;
  return {
    nowMs: () => nowMs,
    advance(toMs) {
      nowMs = Math.max(nowMs, toMs);
    },
    enter: (atMs, event) => queue.put(atMs, RANKS[event.kind], event),
    nextAtMs: () => queue.nextAtMs(),
    take: () => queue.take()?.what,
  };
}
