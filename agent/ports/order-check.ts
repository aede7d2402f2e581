/** @file Who may give this agent orders, as its activities ask. The answer is why the order is refused; undefined when it is not. */

import type { LeaseOrder, LogQuery, RunOrder } from "../../protocol/agent-contract.ts";

export interface OrderCheck {
  /** Whether the sender may end, change or checkpoint the lease. `stored`: the order of a launch of this lease on this host, if there is one. */
  lease(order: LeaseOrder, stored: RunOrder | undefined): Promise<string | undefined>;
  /** Whether the sender may read what the launch of this order has written. */
  logs(query: LogQuery, stored: RunOrder | undefined): Promise<string | undefined>;
}
