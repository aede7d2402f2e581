/** @file What a presence knows, what it hears and what it orders. Types. */

import type { InboxEntry } from "../../domain/lease/inbox-entry.ts";
import type { AgentReport, PresenceTerms } from "../../protocol/agent-contract.ts";
import type { PresenceInput, PresentAgent, SilenceTerms } from "../../protocol/fleet.ts";

export interface Presence {
  readonly fleet: string;
  readonly cluster: string;
  /** Agents that are watched, in order of arrival. */
  readonly agents: readonly WatchedAgent[];
  readonly arrivals: readonly PresentAgent[];
  /** How many of the first arrivals the run before has handed over. */
  readonly carried: number;
  /** Deregistrations on their way to the fleet. */
  readonly farewells: readonly Notice[];
  readonly terms?: SilenceTerms;
  /** The terms are asked for; `isRestart`: with them every agent starts from the beginning. */
  readonly askedTerms?: { readonly id: number; readonly isRestart: boolean };
  /** Every agent is to report again, on terms that are asked for anew. */
  readonly isReportDue: boolean;
  /** What this run has cost of its history, about. */
  readonly events: number;
  readonly junkSignals: number;
  readonly nextId: number;
  /** The date of the last word, also of the runs before; a clock that is set back does not take it back. */
  readonly toldAtMs: number;
  /** Of the next run; there once this one is over. */
  readonly next?: PresenceInput;
}

export interface WatchedAgent extends PresentAgent {
  readonly isSilent: boolean;
  readonly stage:
    | { readonly kind: "reporting"; readonly id: number; readonly terms: PresenceTerms }
    /** Tells the fleet; afterwards it is asked for a report, or contact is kept on the terms of its report. */
    | {
        readonly kind: "telling";
        readonly notice: Notice;
        readonly rest: readonly InboxEntry[];
        readonly contactOn?: PresenceTerms;
      }
    | { readonly kind: "in-contact"; readonly id: number }
    | { readonly kind: "pausing"; readonly untilMs: number };
}

/** An entry on its way to the fleet, or waiting until it goes again. */
export interface Notice {
  readonly entry: InboxEntry;
  readonly id: number;
  readonly retryAtMs?: number;
}

export type PresenceEvent =
  | { readonly kind: "announced"; readonly present: unknown }
  | { readonly kind: "deregistered"; readonly epoch: unknown }
  | { readonly kind: "report-again" }
  /** A signal of a name that no presence knows. */
  | { readonly kind: "unknown-signal" }
  /** `isProofAsked`: what was announced before the first terms is announced again if it is proven. */
  | {
      readonly kind: "terms";
      readonly id: number;
      readonly terms: SilenceTerms;
      readonly isProofAsked?: boolean;
    }
  | { readonly kind: "reported"; readonly id: number; readonly report: AgentReport }
  /** `isTimeout`: the agent did not take the question, or did not answer it in time. */
  | { readonly kind: "report-failed"; readonly id: number; readonly isTimeout: boolean }
  /** `ended`: the agent has ended on purpose. */
  | { readonly kind: "contact-over"; readonly id: number; readonly how: "ended" | "silent" }
  | { readonly kind: "told"; readonly id: number; readonly isDelivered: boolean };

export type PresenceCommand =
  | { readonly kind: "ask-terms"; readonly id: number }
  | {
      readonly kind: "report" | "keep-contact";
      readonly id: number;
      readonly to: PresentAgent;
      readonly terms: PresenceTerms;
      /** A silent agent may take its time; one that should be there may not. */
      readonly isPatient: boolean;
    }
  | { readonly kind: "tell"; readonly id: number; readonly entry: InboxEntry }
  | { readonly kind: "cancel"; readonly id: number };
