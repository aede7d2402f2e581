/** @file Whose word on the use of GPUs is heard: that of the host's own agent, in the activity that its presence gave it. */

import type { Client } from "@temporalio/client";
import { defaultPayloadConverter } from "@temporalio/common";
import { expect, it } from "vitest";
import { gpuUse } from "../../client/index.ts";
import { clusterId } from "../../domain/values/ids.ts";

const own = { use: 0.9, idleMs: 0 };
const forged = { use: 0, idleMs: 3_600_000 };

/** `eu/b`'s agent speaks for all, too, and is heard last. */
function presence(isQueueTold = true): Client {
  const contact = (queue: string, use: object): object => ({
    activityType: { name: "keepContact" },
    ...(isQueueTold && { activityOptions: { taskQueue: { name: queue } } }),
    heartbeatDetails: { payloads: [defaultPayloadConverter.toPayload({ use })] },
  });
  const pendingActivities = [
    contact("order.a", { "eu/a": [own] }),
    contact("order.b", { "eu/a": [forged], "eu/b": [own], "eu/c": [own], "us/a": [forged] }),
  ];
  const client = {
    options: {
      loadedDataConverter: { payloadCodecs: [], payloadConverter: defaultPayloadConverter },
    },
    withDeadline: (_at: number, call: () => unknown) => call(),
    workflow: {
      getHandle: () => ({ describe: () => Promise.resolve({ raw: { pendingActivities } }) }),
    },
  };
  return client as unknown as Client;
}

it.each([true, false])("hears no agent on the hosts of another (queues told: %s)", async (told) => {
  const queues = new Map([
    ["eu/a", "order.a"],
    ["eu/b", "order.b"],
  ]);
  const queueOf = (host: string): string | undefined => queues.get(host);
  const query = { fleet: "f", cluster: clusterId("eu"), queueOf };
  expect([...(await gpuUse(presence(told), query))]).toEqual(
    told
      ? [
          ["eu/a", [own]],
          ["eu/b", [own]],
          // Nobody is known to answer for it.
          ["eu/c", [own]],
        ]
      : [["eu/c", [own]]],
  );
});
