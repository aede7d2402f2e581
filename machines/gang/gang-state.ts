/** @file The state of a running gang, the part of each host in it, and the events that change it. */

import type { AgentAddress } from "../../domain/lease/inbox-entry.ts";
import type { HostId } from "../../domain/values/ids.ts";
import type { RunCause, RunReport, StopReport } from "../../protocol/agent-contract.ts";
import type { PreemptOrder } from "../../protocol/job.ts";
import type { Agents, GangInput } from "./gang-commands.ts";
import {
  stoppedBeforeStart,
  unconfirmed,
  type GangEnd,
  type HostEnd,
  type HostStop,
} from "./gang-end.ts";

export interface Gang {
  readonly input: GangInput;
  /** `locating`: the agents of some hosts are not known yet, and nothing was started. */
  readonly phase: "locating" | "running";
  /** Where each host's agent is now, as far as is known. */
  readonly agents: Agents;
  /** Where the agents were when the gang started. */
  readonly peers: Agents;
  /** By host id. */
  readonly parts: readonly HostPart[];
  /** In the order in which the parts ended. */
  readonly ends: ReadonlyMap<HostId, HostEnd>;
  /** Answers to orders to stop. */
  readonly stopped: ReadonlyMap<HostId, HostStop>;
  readonly reason?: GangStopReason;
  readonly preempt?: PreemptOrder;
  readonly fenced: ReadonlySet<HostId>;
  /** It stops without a checkpoint and without a grace. */
  readonly isKilled?: true;
  /** Its hosts have been ordered to stop. */
  readonly isStopping: boolean;
  /** The runs that were still watched have been cancelled. */
  readonly hasLetGo: boolean;
  /** Commands given so far. */
  readonly commandCount: number;
  /** Present once the gang is over. */
  readonly end?: GangEnd;
}

/** Why a gang is stopped although nothing failed and its GPUs are not wanted. */
export type StopReason = "cancelled" | "deadline";

/** The same, and the orders after which the job goes on later. */
export type GangStopReason = StopReason | "suspended" | "requeued" | "moved";

export type GangEvent =
  | { readonly kind: "stop"; readonly reason: GangStopReason }
  /** From now on it stops without a checkpoint and without a grace, once there is a reason to stop. */
  | { readonly kind: "kill" }
  /** The GPUs of the lease are wanted for another job. */
  | { readonly kind: "preempt"; readonly order: PreemptOrder }
  /** The fleet has given these hosts up. */
  | { readonly kind: "fenced"; readonly hosts: readonly HostId[] }
  | {
      readonly kind: "ran";
      readonly id: string;
      readonly host: HostId;
      readonly outcome: RunOutcome;
    }
  | {
      readonly kind: "stopped";
      readonly id: string;
      readonly host: HostId;
      readonly outcome: StopOutcome;
    }
  | {
      readonly kind: "found";
      readonly id: string;
      readonly host: HostId;
      /** Null when no agent has registered for the host. */
      readonly agent: AgentAddress | null;
      /** The fleet has no such lease any more: the host has confirmed its end, or was fenced. */
      readonly isLeaseGone?: true;
    };

/** The answers to commands. */
export type GangAnswer = Extract<GangEvent, { readonly id: string }>;

export type RunOutcome =
  | { readonly kind: "reported"; readonly report: RunReport }
  | { readonly kind: "failed"; readonly means: RunFailure; readonly cause: RunCause }
  /** By `stop-watching`, or by an operator who paused the activity. */
  | { readonly kind: "cancelled" };

export type RunFailure =
  /** The host confirms it itself. */
  | "nothing runs"
  /** This attempt was refused before anything started; an earlier attempt may have started something. */
  | "never started"
  /** No agent took the task. */
  | "not taken"
  | "silent"
  /** A GPU of the launch has broken. It runs on until it is told to stop. */
  | "faulty"
  /** The agent failed in a way that it has no code for. */
  | "broken";

export type StopOutcome =
  | { readonly kind: "confirmed"; readonly report: StopReport }
  /** The host did not answer, which proves nothing. */
  | { readonly kind: "failed" };

/** The part of one host. */
export interface HostPart {
  readonly host: HostId;
  readonly watch: Watch;
  /** The `run` command that has not been answered yet; it may outlive the part of a fenced host. */
  readonly runId?: string;
  /** Something may run on the host, so only its own answer ends the part for certain. */
  readonly mayRun: boolean;
  /** How often it was found silent. */
  readonly pauses: number;
  /** Present once the host was ordered to stop. */
  readonly stop?: HostStopping;
}

type Watch =
  /** Its agent is known; the gang has not started. */
  | { readonly kind: "ready" }
  | { readonly kind: "running" }
  /** Its agent is silent, or not known. */
  | { readonly kind: "pausing"; readonly untilMs: number }
  | { readonly kind: "finding"; readonly id: string }
  /** The agent has failed, or a GPU; the answer to the order to stop decides how the part ends. */
  | { readonly kind: "failing"; readonly cause: RunCause; readonly isFaulty?: true }
  | { readonly kind: "over" };

export interface HostStopping {
  readonly reason: string;
  readonly isKill?: true;
  readonly attempt: number;
  readonly doing:
    | { readonly kind: "asking"; readonly id: string }
    | { readonly kind: "finding"; readonly id: string }
    | { readonly kind: "over" };
}

export const isEnded = ({ watch }: HostPart): boolean => watch.kind === "over";

/** How the part of a silent host ends when its gang is stopped. */
export const stoppedEnd = ({ host, mayRun }: HostPart, nowMs: number): HostEnd =>
  mayRun ? unconfirmed(host, nowMs) : { kind: "refused", cause: stoppedBeforeStart(host, nowMs) };
