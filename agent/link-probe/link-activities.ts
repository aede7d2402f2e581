/**
 * @file An agent's part in probes of links: it opens a listener, or connects to another agent's; one probe at a time, whatever is asked.
 *
 * A listener outlives its activity, so it takes no slot of the order queue while it waits for its peer. A second request closes an unused
 * listener: the earlier probe failed because its peer could not connect.
 */

import type { HostId } from "../../domain/values/ids.ts";
import type { LinkActivities } from "../../protocol/link-contract.ts";
import type { ActivityTask } from "../ports/temporal.ts";
import { failure } from "../system/failures.ts";
import { listenForProbe, type Listener } from "./probe-listener.ts";
import { connectProbe } from "./probe-connector.ts";

export interface LinkPorts {
  readonly hosts: { readonly has: (host: HostId) => boolean };
  /** What the other hosts of a gang connect to. */
  readonly address: string;
  readonly task: () => Pick<ActivityTask, "cancelled">;
  readonly closing: AbortSignal;
}

/** However long is asked for. */
const MAX_OPEN_MS = 60_000;
const MAX_BYTES = 64 * 2 ** 20;

export function createLinkActivities({ hosts, address, task, closing }: LinkPorts): LinkActivities {
  let listener: Listener | undefined;
  let isBusy = false;
  const alone = async <Answer>(host: HostId, part: () => Promise<Answer>): Promise<Answer> => {
    if (!hosts.has(host)) throw failure("HOST_REFUSED", `this agent does not serve ${host}`);
    if (isBusy || listener?.isTaken() === true)
      throw failure("HOST_REFUSED", `the agent of ${host} is in another probe; ask it again later`);
    isBusy = true;
    try {
      listener?.close();
      await listener?.closed;
      return await part();
    } finally {
      isBusy = false;
    }
  };
  return {
    listenForProbe: ({ host, openMs }) =>
      alone(host, async () => {
        const longestMs = Math.min(openMs, MAX_OPEN_MS);
        const opened = await listenForProbe({
          address,
          openMs: longestMs,
          mostBytes: MAX_BYTES,
          closing,
        });
        listener = opened;
        void opened.closed.then(() => {
          if (listener === opened) listener = undefined;
        });
        return { host, address, port: opened.port, token: opened.token };
      }),
    connectProbe: (order) =>
      alone(order.host, () => {
        const mostBytes = Math.min(order.mostBytes, MAX_BYTES);
        return connectProbe({ ...order, mostBytes }, task().cancelled);
      }),
  };
}
