/**
 * @file The policies that are compared: the paper's three rivals, FIFO without backfill, EASY and conservative backfill, and ours.
 *
 * The paper's FIFO "processes workloads in arrival order", so no job passes the first one that waits. DRF's published algorithm also stops
 * at the first demand that does not fit. Only this explains why the paper has them 28 and 16 points below bin-packing: with backfill all
 * three use nearly as much. Both are shown with backfill too, which is much better for small jobs.
 */

import type { Policies } from "../../scheduling/cycle/cycle.ts";
import {
  binPacking,
  conservative,
  drf,
  easy,
  fifo,
  fifoBackfill,
  tawfq,
} from "../../scheduling/cycle/policy-sets.ts";
import type { Workload } from "../workload.ts";
import { bestFit } from "./best-fit.ts";
import { PAPER_RIVALS, PAPER_TAWFQ } from "./frozen-mix.ts";

export interface Entrant {
  readonly name: EntrantName;
  readonly policies: Policies;
  /** What the paper has for it. */
  readonly paper?: { readonly utilisation: number; readonly p99Ms: number };
  /** Gangs may start smaller after their timeout: the third mechanism of the paper's own scheduler, which its rivals lack. */
  readonly degrades?: true;
}

export const ENTRANT_NAMES = [
  "fifo",
  "fifo-backfill",
  "bin-packing",
  "drf",
  "drf-backfill",
  "easy",
  "conservative",
  "tawfq",
] as const;
export type EntrantName = (typeof ENTRANT_NAMES)[number];

export const ENTRANTS: Readonly<Record<EntrantName, Entrant>> = Object.freeze({
  fifo: { name: "fifo", policies: fifo, paper: PAPER_RIVALS.fifo },
  "fifo-backfill": { name: "fifo-backfill", policies: fifoBackfill },
  "bin-packing": {
    name: "bin-packing",
    policies: { ...binPacking, place: bestFit },
    paper: PAPER_RIVALS.binPacking,
  },
  drf: { name: "drf", policies: { ...drf, backfill: "none" }, paper: PAPER_RIVALS.drf },
  "drf-backfill": { name: "drf-backfill", policies: drf },
  easy: { name: "easy", policies: easy },
  conservative: { name: "conservative", policies: conservative },
  tawfq: { name: "tawfq", policies: tawfq, paper: PAPER_TAWFQ, degrades: true },
});

/** The workload as the entrant sees it: where gangs may not start smaller, no job takes less than it asks for. */
export const workloadFor = (name: EntrantName, workload: Workload): Workload =>
  ENTRANTS[name].degrades === true ? workload : allOrNothing(workload);

export const allOrNothing = (workload: Workload): Workload => ({
  ...workload,
  jobs: workload.jobs.map(({ minGpus: _min, mayGrow: _grow, shapes: _shapes, ...job }) => job),
});
