/**
 * @file Who takes part: the paper's three rivals, FIFO without backfill, EASY and conservative backfill, and ours, behind one interface.
 *
 * The paper's FIFO "processes workloads in arrival order", so nobody passes the first that waits; DRF's published algorithm stops at the
 * first demand that does not fit, too. Only so can they be 28 and 16 points below bin-packing: where everybody passes who fits,
 * all three use nearly the same. Both are shown with backfill besides, which is by far better for small jobs.
 */

import type { Policies } from "../../scheduling/cycle.ts";
import {
  binPacking,
  conservative,
  drf,
  easy,
  fifo,
  fifoBackfill,
  tawfq,
} from "../../scheduling/policy-sets.ts";
import { bestFit } from "../../scheduling/placement/best-fit.ts";
import { PAPER_RIVALS, PAPER_TAWFQ } from "./mix.ts";

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
