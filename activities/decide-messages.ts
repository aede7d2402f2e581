/** @file What `decider.ts` and its threads tell each other. */

import type { PackedLedger } from "../domain/lease/packed-ledger.ts";
import type { Plan } from "../domain/lease/plan.ts";
import type { KeptMessages } from "../domain/bandwidth/sent-messages.ts";
import type { KeptStep } from "../domain/model/step-record.ts";
import type { WeightsKeeper } from "../domain/lease/kept-weights.ts";
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

/** What runs of a fleet have measured, what they have sent, and what hosts keep of what they served; nobody waits for an answer. */
export interface KnownRuns {
  readonly kind: "known";
  readonly fleet: string;
  /** Those that are absent stay as they were. */
  readonly steps?: readonly KeptStep[];
  readonly messages?: readonly KeptMessages[];
  readonly keepers?: readonly WeightsKeeper[];
}

/** What a decision would know of runs, and the clusters whose bandwidth models keep it. */
export interface WantedRuns {
  readonly clusters: readonly string[];
  /** It has priced places. */
  readonly areSteps: boolean;
  /** It has asked models for bandwidths. */
  readonly areMessages: boolean;
  /** It has placed what may be a served model. */
  readonly areKeepers: boolean;
}

export type Told =
  | {
      readonly kind: "plan";
      readonly planText: string;
      readonly answer: string;
      readonly wanted?: WantedRuns;
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
