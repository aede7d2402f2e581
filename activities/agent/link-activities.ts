/**
 * @file An agent's part in probes of links: opens a door, or knocks at another's; one probe at a time, whatever it is asked.
 *
 * A door outlives its activity: it takes no slot of the order queue while it waits for its guest.
 */

import type { HostId } from "../../domain/ids.ts";
import type { LinkActivities } from "../link-contract.ts";
import type { ActivityTask } from "./activity-task.ts";
import { failure } from "./failures.ts";
import { openDoor } from "./probe-door.ts";
import { knock } from "./probe-knock.ts";

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
  let isBusy = false;
  const begin = (host: HostId): void => {
    if (!hosts.has(host)) throw failure("HOST_REFUSED", `this agent does not serve ${host}`);
    if (isBusy)
      throw failure("HOST_REFUSED", `the agent of ${host} is in another probe; ask it again later`);
    isBusy = true;
  };
  const done = (): void => {
    isBusy = false;
  };
  return {
    openDoor: async ({ host, openMs }) => {
      begin(host);
      const mostBytes = MAX_BYTES;
      const setting = { address, openMs: Math.min(openMs, MAX_OPEN_MS), mostBytes, closing };
      const opened = await openDoor(setting).catch((error: unknown) => {
        done();
        throw error;
      });
      void opened.closed.then(done);
      return { host, address, port: opened.port, token: opened.token };
    },
    knock: async (order) => {
      begin(order.host);
      try {
        const mostBytes = Math.min(order.mostBytes, MAX_BYTES);
        return await knock({ ...order, mostBytes }, task().cancelled);
      } finally {
        done();
      }
    },
  };
}
