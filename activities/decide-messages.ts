/** @file What `decider.ts` and its threads tell each other. */

import type { PackedLedger } from "../domain/lease/packed-ledger.ts";
import type { Plan } from "../domain/lease/plan.ts";
import type { KeptStep } from "../domain/model/step-record.ts";
import { textHash } from "../lib/text-hash.ts";
import type { Feed, Snapshot, StaleReason } from "../protocol/control-contract.ts";

export interface ThreadData {
  readonly storeDir: string;
  readonly method: "decide" | "baseline";
}

export type AskedQuestion = { readonly nowMs: number } & (
  | { readonly kind: "once"; readonly ledger: PackedLedger }
  | { readonly kind: "snapshot"; readonly snapshot: Snapshot }
  /** `plans`: JSON of plans by the names of their answers. */
  | { readonly kind: "feed"; readonly feed: Feed; readonly plans: ReadonlyMap<string, string> }
  /** On the ledger that the thread keeps, if it is the one of this hash. */
  | { readonly kind: "kept"; readonly fleet: string; readonly hash: string }
);

export type ThreadQuestion = AskedQuestion & {
  readonly id: number;
  /** The ledger is to follow, and nobody waits for a plan. */
  readonly isFedOnly: boolean;
};

/** What runs of a fleet have measured; nobody waits for an answer. */
export interface KnownSteps {
  readonly kind: "steps";
  readonly fleet: string;
  readonly steps: readonly KeptStep[];
}

export type Told =
  | {
      readonly kind: "plan";
      readonly planText: string;
      readonly answer: string;
      /** The fleet's clusters, where places were priced. */
      readonly priced?: readonly string[];
    }
  | { readonly kind: "stale"; readonly reason: StaleReason };

export type ThreadAnswer = { readonly id: number } & (
  Told | { readonly kind: "fed" } | { readonly kind: "error"; readonly message: string }
);

/** The plan as JSON, and the name of the answer: one text, one name. */
export function named(plan: Plan): { readonly planText: string; readonly answer: string } {
  const planText = JSON.stringify(plan);
  return { planText, answer: textHash(planText) };
}
