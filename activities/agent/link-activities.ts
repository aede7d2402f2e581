/**
 * @file An agent's part in probes of links: opens a door, or knocks at another's; one probe at a time, whatever it is asked.
 *
 * A door outlives its activity: it takes no slot of the order queue while it waits for its guest. Who is asked again while nobody has come shuts it: that
 * probe is over, its other end found no way here.
 */

import type { HostId } from "../../domain/ids.ts";
import type { LinkActivities } from "../link-contract.ts";
import type { ActivityTask } from "./activity-task.ts";
import { failure } from "./failures.ts";
import { openDoor, type Door } from "./probe-door.ts";
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
  let door: Door | undefined;
  let isBusy = false;
  const alone = async <Answer>(host: HostId, part: () => Promise<Answer>): Promise<Answer> => {
    if (!hosts.has(host)) throw failure("HOST_REFUSED", `this agent does not serve ${host}`);
    if (isBusy || door?.isTaken() === true)
      throw failure("HOST_REFUSED", `the agent of ${host} is in another probe; ask it again later`);
    isBusy = true;
    try {
      door?.close();
      await door?.closed;
      return await part();
    } finally {
      isBusy = false;
    }
  };
  return {
    openDoor: ({ host, openMs }) =>
      alone(host, async () => {
        const longestMs = Math.min(openMs, MAX_OPEN_MS);
        const opened = await openDoor({
          address,
          openMs: longestMs,
          mostBytes: MAX_BYTES,
          closing,
        });
        door = opened;
        void opened.closed.then(() => {
          if (door === opened) door = undefined;
        });
        return { host, address, port: opened.port, token: opened.token };
      }),
    knock: (order) =>
      alone(order.host, () => {
        const mostBytes = Math.min(order.mostBytes, MAX_BYTES);
        return knock({ ...order, mostBytes }, task().cancelled);
      }),
  };
}
