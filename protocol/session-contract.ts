/**
 * @file Interactive sessions with a rank: the order to dial out, and the words at both ends of a session. Types only.
 *
 * The order goes through Temporal; what is typed, printed and forwarded goes over the relay of a submit service (`streams/`).
 */

import type { FailureCode } from "../domain/values/codes.ts";
import type { HostId, JobId, LeaseId } from "../domain/values/ids.ts";

export interface SessionActivities {
  /** Returns when the agent is at the relay. Never tried again: the ticket is good once. */
  dial(order: DialOrder): Promise<void>;
}

export interface DialOrder {
  readonly jobId: JobId;
  readonly host: HostId;
  readonly leaseId: LeaseId;
  /** `access/session-ticket.ts`. */
  readonly ticket: string;
}

/** A session workflow carries one order to an agent. */
export interface SessionInput {
  readonly rules: number;
  readonly fleet: string;
  readonly order: DialOrder;
}

export const SESSION_RULES = 1;

/** What the client wants started; the ticket has its hash, so nobody in between can put another in its place. */
export interface SessionStart {
  /** Of `exec`. */
  readonly command?: readonly string[];
  readonly terminal?: TerminalSize & { readonly name: string };
  /** Without a byte in either direction for so long the session ends. */
  readonly idleMs: number;
}

export interface TerminalSize {
  readonly rows: number;
  readonly columns: number;
}

export type ClientWord =
  | { readonly start: SessionStart }
  | { readonly signal: SessionSignal }
  | { readonly size: TerminalSize }
  /** A connection to the port of the ticket. */
  | { readonly connect: number }
  | { readonly drop: number };

export const SESSION_SIGNALS = ["INT", "TERM", "HUP", "QUIT", "USR1", "USR2", "KILL"] as const;
export type SessionSignal = (typeof SESSION_SIGNALS)[number];

export type AgentWord =
  /** The last one of an exec session. */
  | { readonly exit: SessionExit }
  | { readonly refused: number; readonly message: string }
  | { readonly drop: number }
  | { readonly failed: { readonly code: FailureCode; readonly message: string } };

export interface SessionExit {
  readonly exitCode?: number;
  readonly signal?: string;
  /** Why the session ended before its command. */
  readonly reason?: "idle" | "time" | "job-ended" | "memory" | "withdrawn";
}
