/**
 * @file The policies that `bench traces` compares: ours, and the rivals, bare and inside the tenants' weights.
 *
 * All have the product's placement, and let gangs wait for compact places.
 */

import {
  binPacking,
  conservative,
  drf,
  easy,
  fifo,
  fifoBackfill,
  tawfq,
} from "../../scheduling/cycle/policy-sets.ts";
import type { Policies } from "../../scheduling/cycle/policies.ts";
import * as rivals from "../../scheduling/cycle/service-rivals.ts";
import { byPriority } from "../../scheduling/queue/fifo.ts";
import { byLargest } from "../../scheduling/queue/largest-first.ts";
import type { PolicyName } from "./names.ts";

export interface TraceEntrant {
  readonly name: PolicyName;
  readonly policies: Policies;
  /** `weights`: in the order of its own inside each tenant, while tenants share by weight. */
  readonly scope: "ours" | "bare" | "weights";
  /** It knows how long each job will run: never a rival, unless it is named. */
  readonly isOracle?: true;
}

const { compact, inWeights } = rivals;
const bare = { scope: "bare" } as const;
const weights = { scope: "weights" } as const;
const isOracle = true;

export const TRACE_ENTRANTS: readonly TraceEntrant[] = [
  { name: "tawfq", policies: tawfq, scope: "ours" },
  { name: "fifo", policies: compact(fifo), ...bare },
  { name: "fifo-backfill", policies: compact(fifoBackfill), ...bare },
  { name: "easy", policies: compact(easy), ...bare },
  { name: "conservative", policies: compact(conservative), ...bare },
  { name: "drf", policies: compact(drf), ...bare },
  { name: "bin-packing", policies: compact(binPacking), ...bare },
  { name: "las", policies: rivals.las, ...bare },
  { name: "qssf", policies: rivals.qssf, ...bare },
  { name: "srsf", policies: rivals.srsf, ...bare, isOracle },
  { name: "sjf", policies: rivals.sjf, ...bare, isOracle },
  { name: "fifo-weights", policies: inWeights(fifoBackfill, byPriority), ...weights },
  { name: "easy-weights", policies: inWeights(easy, byPriority), ...weights },
  { name: "conservative-weights", policies: inWeights(conservative, byPriority), ...weights },
  { name: "bin-packing-weights", policies: inWeights(binPacking, byLargest), ...weights },
  { name: "las-weights", policies: rivals.lasInWeights, ...weights },
  { name: "qssf-weights", policies: rivals.qssfInWeights, ...weights },
  { name: "srsf-weights", policies: rivals.srsfInWeights, ...weights, isOracle },
  { name: "sjf-weights", policies: rivals.sjfInWeights, ...weights, isOracle },
];
