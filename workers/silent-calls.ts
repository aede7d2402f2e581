/** @file Calls of a connection that was closed: a retry of one ends nothing but itself. */

import type { ConnectionOptions as ClientOptions } from "@temporalio/client";

type Interceptor = NonNullable<ClientOptions["interceptors"]>[number];
type Call = ReturnType<Interceptor>;

/**
 * After its connection was closed a retry goes nowhere and has no answer: that of a call which nobody awaits any more, the loser of a race, would throw out
 * of its timer and end the process.
 */
export function silentOnce(isClosed: () => boolean): Interceptor {
  /** Options of calls that were made before; a retry has those of the first try. */
  const known = new WeakSet();
  return (options, nextCall) => {
    if (isClosed() && known.has(options)) return SILENT_CALL;
    known.add(options);
    return nextCall(options) as Call; // as the retrying interceptor takes it
  };
}

const nothing = (): void => undefined;
const SILENT_CALL = {
  start: nothing,
  sendMessage: nothing,
  sendMessageWithContext: nothing,
  startRead: nothing,
  halfClose: nothing,
  cancelWithStatus: nothing,
  getPeer: () => "",
  getAuthContext: () => null,
} as unknown as Call; // its class has private fields
