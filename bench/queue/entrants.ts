/**
 * @file Who takes part: the paper's three rivals, FIFO without backfill, EASY and conservative backfill, and ours, behind one interface.
 *
 * The paper does not say which FIFO it means. By its words (small jobs fragment the cluster while large ones wait) it is the one
 * with backfill, whose inference p99 is also by far the better: so that one is the rival, and the strict one is shown beside it.
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
  "easy",
  "conservative",
  "tawfq",
] as const;
export type EntrantName = (typeof ENTRANT_NAMES)[number];

export const ENTRANTS: Readonly<Record<EntrantName, Entrant>> = Object.freeze({
  fifo: { name: "fifo", policies: fifo },
  "fifo-backfill": { name: "fifo-backfill", policies: fifoBackfill, paper: PAPER_RIVALS.fifo },
  "bin-packing": {
    name: "bin-packing",
    policies: { ...binPacking, place: bestFit },
    paper: PAPER_RIVALS.binPacking,
  },
  drf: { name: "drf", policies: drf, paper: PAPER_RIVALS.drf },
  easy: { name: "easy", policies: easy },
  conservative: { name: "conservative", policies: conservative },
  tawfq: { name: "tawfq", policies: tawfq, paper: PAPER_TAWFQ, degrades: true },
});
