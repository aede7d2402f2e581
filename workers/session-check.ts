/**
 * @file Who may open a session on this agent's hosts: whom their output is shown to (`order-check.ts`), by a ticket for this very run that was never used.
 *
 * Which workflow carries the order does not matter: everything that it says is signed, the relay included, and it works once.
 */

import { commandRefusal } from "../access/host-trust.ts";
import {
  checkSessionTicket,
  LONGEST_SESSION_MS,
  SESSION_TICKET_MS,
} from "../access/session-ticket.ts";
import { submitterIn } from "../access/ticket.ts";
import type { SessionCheck } from "../agent/ports/session-check.ts";
import type { HostAccess } from "./order-check.ts";

/** Clocks of hosts and services differ by less than this. */
const CLOCKS_MS = 60_000;
const MOST_NUMBERS = 10_000;

export function sessionCheck(
  { trust }: Pick<HostAccess, "trust">,
  nowMs: () => number = Date.now,
): SessionCheck {
  /** Numbers that were used, with the end of their tickets. */
  const used = new Map<string, number>();
  return {
    opens(order, stored) {
      const submitter = stored?.ticket === undefined ? undefined : submitterIn(stored.ticket);
      const believed = [
        ...(trust.kind === "own-user" ? [trust.publicKey] : []),
        ...(trust.kind === "policy" ? trust.policy.operators : []),
        ...(submitter === undefined ? [] : [submitter]),
      ];
      const check = checkSessionTicket(
        order.ticket,
        trust.kind === "namespace" ? undefined : believed,
      );
      if (check.kind === "refused") return check.reason;
      const { ticket } = check;
      if (ticket.job !== order.jobId || ticket.lease !== order.leaseId)
        return "its ticket is for another run";
      if (ticket.host !== order.host) return `its ticket is for host ${ticket.host}`;
      if (stored?.jobId !== ticket.job) return "this host has not started that run";
      const now = nowMs();
      if (now > ticket.until || ticket.until > now + SESSION_TICKET_MS + CLOCKS_MS)
        return "its ticket is over, or clocks differ";
      if (ticket.ends > now + LONGEST_SESSION_MS + CLOCKS_MS)
        return "its ticket is good for more than a day";
      for (const [number, until] of used) if (until < now) used.delete(number);
      if (used.has(ticket.nonce)) return "its ticket was used before";
      if (used.size >= MOST_NUMBERS) return "too many sessions were opened in a minute";
      used.set(ticket.nonce, ticket.until);
      return ticket;
    },
    starts({ verb }, { command = [] }) {
      if (verb !== "exec" || trust.kind !== "policy") return undefined;
      return commandRefusal(trust, command);
    },
  };
}
