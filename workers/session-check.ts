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
import type { SessionCheck } from "../agent/ports/session-check.ts";
import type { HostId } from "../domain/values/ids.ts";
import { readersOf, type HostAccess } from "./order-check.ts";
import type { UsedNumbers } from "./used-numbers.ts";

/** Clocks of hosts and services differ by less than this. */
const CLOCKS_MS = 60_000;
const REFUSALS = {
  used: "its ticket was used before",
  full: "too many sessions were opened in a minute",
} as const;

/** `numbersOf`: those that a host has used. */
export function sessionCheck(
  { trust }: Pick<HostAccess, "trust">,
  numbersOf: (host: HostId) => UsedNumbers,
  nowMs: () => number = Date.now,
): SessionCheck {
  return {
    opens(order, stored) {
      const now = trust();
      const believed = now.kind === "namespace" ? undefined : readersOf(now, stored);
      const check = checkSessionTicket(order.ticket, believed);
      if (check.kind === "refused") return check.reason;
      const { ticket } = check;
      if (ticket.job !== order.jobId || ticket.lease !== order.leaseId)
        return "its ticket is for another run";
      if (ticket.host !== order.host) return `its ticket is for host ${ticket.host}`;
      if (stored?.jobId !== ticket.job) return "this host has not started that run";
      const atMs = nowMs();
      if (atMs > ticket.until || ticket.until > atMs + SESSION_TICKET_MS + CLOCKS_MS)
        return "its ticket is over, or clocks differ";
      if (ticket.ends > atMs + LONGEST_SESSION_MS + CLOCKS_MS)
        return "its ticket is good for more than a day";
      const time = { untilMs: ticket.until, nowMs: atMs };
      const refusal = numbersOf(order.host).use(ticket.nonce, time);
      return refusal === undefined ? ticket : REFUSALS[refusal];
    },
    goesOn({ by }, stored) {
      const now = trust();
      return now.kind === "namespace" || readersOf(now, stored).includes(by);
    },
    starts({ verb }, { command = [] }) {
      const now = trust();
      return verb === "exec" && now.kind === "policy" ? commandRefusal(now, command) : undefined;
    },
  };
}
