/**
 * @file The fleet's word that a host may act on a lease: a launch ticket lets the job of the lease start on the lease's GPUs, a stop
 * ticket lets a sweep end what is left of it. Both are signed by the fleet's worker when it delivers its orders.
 *
 * A ticket alone is no right to give orders, because who reads histories can copy it: the agent also asks which workflow has sent the order.
 */

import type { KeyObject } from "node:crypto";
import { z } from "zod";
import { parsePublicKey } from "./own-identity.ts";
import { openText, signText } from "./signed-text.ts";

/** A launch ticket is good for so long. It binds the start of its lease on a host; what has started goes on, is adopted and stopped without it. */
export const TICKET_MS = 900_000;

const gpusSchema = z.array(z.tuple([z.string(), z.number().int()])).max(4_096);
const ticketSchema = z.discriminatedUnion("kind", [
  z.object({
    kind: z.literal("launch"),
    fleet: z.string(),
    job: z.string(),
    lease: z.string(),
    token: z.number().int(),
    gpus: gpusSchema,
    hash: z.string().optional(),
    by: z.string().optional(),
    start: z.string().optional(),
    until: z.number(),
  }),
  z.object({
    kind: z.literal("stop"),
    fleet: z.string(),
    job: z.string(),
    lease: z.string(),
    token: z.number().int(),
  }),
]);

interface OfLease {
  /** The id of the fleet's workflow. */
  readonly fleet: string;
  readonly job: string;
  readonly lease: string;
  readonly token: number;
}
/**
 * `hash` and `by`: of the job's content and its submitter's key; absent when the job is not signed. `start`: the first run of the workflow that its signature
 * has served first; absent of a fleet's worker of a former release, and where the server does not tell it.
 */
export interface LaunchTicket extends OfLease {
  readonly kind: "launch";
  readonly gpus: readonly (readonly [host: string, mask: number])[];
  readonly hash?: string | undefined;
  readonly by?: string | undefined;
  readonly start?: string | undefined;
  readonly until: number;
}
export interface StopTicket extends OfLease {
  readonly kind: "stop";
}
export type Ticket = LaunchTicket | StopTicket;

export type TicketCheck =
  | { readonly kind: "good"; readonly ticket: Ticket }
  /** `absent`: the order is from before tickets; `unknown-key`: this host believes other keys. */
  | { readonly kind: "absent" | "unknown-key" | "forged"; readonly reason: string };

export const signTicket = (ticket: Ticket, key: KeyObject): string => signText(ticket, key);

export function checkTicket(signed: unknown, believed: readonly string[]): TicketCheck {
  if (signed === undefined)
    return { kind: "absent", reason: "the fleet has signed no ticket for it" };
  const opened = openText<Ticket>(signed, ticketSchema);
  if (opened === undefined) return { kind: "forged", reason: "its ticket has another form" };
  const isBelieved = believed.some((text) => {
    const key = parsePublicKey(text);
    return key !== undefined && opened.isSignedBy(key);
  });
  if (isBelieved) return { kind: "good", ticket: opened.claims };
  return {
    kind: "unknown-key",
    reason:
      "its ticket is forged, or signed by a fleet whose key this host does not know (copy the fleet's keys/fleet.pub to the agent's)",
  };
}

/** Whose ticket an order shows, where nothing depends on its truth; a stored order was checked before it was stored. */
export const submitterIn = (signed: unknown): string | undefined => {
  const claims = openText<Ticket>(signed, ticketSchema)?.claims;
  return claims?.kind === "launch" ? claims.by : undefined;
};

export interface TicketUse extends OfLease {
  readonly host: string;
}

/** Why the ticket is none for this order; undefined when it is. Its time is another question. */
export function ticketMismatch(ticket: Ticket, use: TicketUse): string | undefined {
  for (const name of ["fleet", "job", "lease", "token"] as const) {
    if (ticket[name] !== use[name])
      return `its ticket is for ${name} ${String(ticket[name])}, not ${String(use[name])}`;
  }
  if (ticket.kind === "launch" && !ticket.gpus.some(([host]) => host === use.host))
    return `its ticket is not for host ${use.host}`;
  return undefined;
}
