/** @file Who may open sessions with what runs on this agent's hosts, as its activities ask. */

import type { SessionTicket } from "../../access/session-ticket.ts";
import type { RunOrder } from "../../protocol/agent-contract.ts";
import type { DialOrder, SessionStart } from "../../protocol/session-contract.ts";

export interface SessionCheck {
  /** The ticket of the order, which is used up by it; a text says why it is refused. `stored`: the order of the lease's launch on this host. */
  opens(order: DialOrder, stored: RunOrder | undefined): SessionTicket | string;
  /** Whether the key that has signed the ticket may still open it; asked while the session is open. */
  goesOn(ticket: SessionTicket, stored: RunOrder): boolean;
  /** Why this may not be started under the ticket; undefined when it may. */
  starts(ticket: SessionTicket, start: SessionStart): string | undefined;
}
