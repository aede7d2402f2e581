/**
 * @file The events that a fleet's machine takes and the commands that it gives.
 *
 * A command with an `id` is answered by an event with the same `id`. An event without one is news from outside: an inbox batch, an
 * operator's order. Each command says which event answers it; `failed` answers any of them whose activity gave up.
 */

import type { FleetShape } from "../../domain/fleet/fleet.ts";
import type { PackedLedger } from "../../domain/lease/packed-ledger.ts";
import type { QueuePart } from "../../domain/lease/queue-part.ts";
import type { Plan } from "../../domain/lease/plan.ts";
import type { HostId } from "../../domain/values/ids.ts";
import type {
  AuditOrder,
  AuditReport,
  DeliveryReport,
  EstimateOrder,
  Decision,
  Feed,
  FeedAt,
  JointAnswer,
  Post,
  RecoverOrder,
  StartEstimates,
} from "../../protocol/control-contract.ts";
import type { FleetInput } from "../../protocol/fleet.ts";
import type { WordsToCheck, WordVerdicts } from "../../protocol/word-proof.ts";
import type { UnknownSignal } from "./inbox.ts";
import type { OrderWord, Word } from "./words.ts";
import type { RepairOrder, RepairReport, RepairChoice } from "../../protocol/repair.ts";
import type { Drain } from "../../scheduling/ledger/rules/gpu-drains.ts";
import type { LedgerEvent } from "../../scheduling/ledger/ledger.ts";

export type FleetEvent =
  /** One signal with inbox entries, as it came. */
  | ({ readonly kind: "inbox" } & Word)
  /** A signal of a name that no fleet knows. */
  | ({ readonly kind: "unknown-signal" } & UnknownSignal)
  /** Who has said what came, and the decision that was asked for with it. */
  | {
      readonly kind: "checked";
      readonly id: number;
      readonly verdicts: WordVerdicts;
      readonly ahead?: { readonly hash: string; readonly decision: Decision };
    }
  /** An operator's order of which nobody has proven who gives it. */
  | ({ readonly kind: "unproven-order" } & OrderWord)
  /** An operator's order that `orders.ts` has not refused. */
  | { readonly kind: "order"; readonly order: OperatorOrder }
  /** `answer`: its name, where the decider keeps the ledger. */
  | {
      readonly kind: "decided";
      readonly id: number;
      readonly plan: Plan;
      readonly answer?: string;
    }
  /** The decider cannot follow by what it was fed. */
  | { readonly kind: "stale"; readonly id: number }
  | { readonly kind: "delivered"; readonly id: number; readonly report: DeliveryReport }
  | { readonly kind: "audited"; readonly id: number; readonly report: AuditReport }
  | { readonly kind: "recovered"; readonly id: number }
  | { readonly kind: "estimated"; readonly id: number; readonly estimates: StartEstimates }
  | { readonly kind: "repaired"; readonly id: number; readonly report: RepairReport }
  | { readonly kind: "failed"; readonly id: number }
  | { readonly kind: "handlers-finished" };

/** What somebody has said. */
export type Arrival = Extract<
  FleetEvent,
  { readonly kind: "inbox" | "unknown-signal" | "unproven-order" }
>;

/** The events that may have to wait for the end of a cycle. */
export type DeferrableEvent = Exclude<
  FleetEvent,
  Arrival | { readonly kind: "checked" | "decided" | "stale" }
>;

export type OperatorOrder =
  | Drain
  /** The operator vouches that nothing runs on these hosts. */
  | { readonly kind: "fence"; readonly hosts: readonly HostId[] }
  | {
      readonly kind: "hold-queue";
      readonly queue: QueuePart;
      readonly isDraining: boolean;
      readonly by: string;
      readonly reason: string | undefined;
    }
  | { readonly kind: "release-queue"; readonly queue: QueuePart }
  | {
      readonly kind: "configure";
      readonly shape: FleetShape;
      readonly detailsHash?: string;
    }
  /** The next run follows these rules; `refuseRules` has not refused them. */
  | { readonly kind: "upgrade"; readonly rules: number }
  /** Asks everybody about what the operator doubts, and frees what all deny. */
  | ({ readonly kind: "repair" } & RepairChoice);

export type FleetCommand =
  /** Answered by `checked`, never by `failed`. A local activity, so that what was said is in history once. */
  | {
      readonly kind: "check";
      readonly id: number;
      readonly list: WordsToCheck;
      readonly values: Uint8Array;
      /** What is to be decided in the same activity if all words pass. */
      readonly ahead?: FeedAt;
    }
  /** Answered by `decided`, never by `failed`. It runs as a local activity, so the ledger stays out of history. */
  | {
      readonly kind: "decide";
      readonly id: number;
      readonly ledger: PackedLedger;
      readonly nowMs: number;
      /** For a decider that is to keep the ledger: whose it is, and the hash of the event chain. */
      readonly keep?: { readonly fleet: string; readonly hash: string };
    }
  /** The same of a decider that keeps the ledger; answered by `decided` or `stale`. */
  | {
      readonly kind: "decide-next";
      readonly id: number;
      readonly feed: Feed;
      readonly nowMs: number;
    }
  /** Answered by `delivered`. */
  | { readonly kind: "deliver"; readonly id: number; readonly post: Post }
  /** Answered by `audited`. */
  | { readonly kind: "audit"; readonly id: number; readonly order: AuditOrder }
  /** Answered by `recovered`. */
  | { readonly kind: "recover"; readonly id: number; readonly order: RecoverOrder }
  /** Answered by `estimated`. */
  | { readonly kind: "estimate-starts"; readonly id: number; readonly order: EstimateOrder }
  /** Answered by `repaired`. */
  | { readonly kind: "repair"; readonly id: number; readonly order: RepairOrder }
  /** Waits until every update has had its answer; answered by `handlers-finished`. */
  | { readonly kind: "finish-handlers" }
  /** Ends the run; the machine is over. */
  | { readonly kind: "continue-as-new"; readonly input: FleetInput }
  /** Tells an observer which event the ledger has just folded. Changes nothing. */
  | { readonly kind: "record"; readonly event: LedgerEvent };

/** The event of an answer about words and the decision that follows. */
export const jointEvent = (
  id: number,
  { feed: { hash } }: FeedAt,
  { verdicts, decision }: JointAnswer,
): FleetEvent => ({
  ...{ kind: "checked", id, verdicts },
  ...(decision !== undefined && { ahead: { hash, decision } }),
});
