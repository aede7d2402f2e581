/** @file What agents say of their hosts, beside what the fleet knows of them. */

import type { Client } from "@temporalio/client";
import { defaultPayloadConverter } from "@temporalio/common";
import { expect, it } from "vitest";
import { fleetTrust } from "../../client/agent-trust.ts";
import { parseHostId } from "../../domain/values/ids.ts";
import { apply, emptyLedger } from "../../scheduling/ledger/apply/apply.ts";
import { fleetOf, SMALL_FLEET } from "../support/world.ts";

it("a host that was drained since is not shown as left in service", async () => {
  const left = { "alpha/a1": "a launch failed", "alpha/a2": "another did" };
  const beat = {
    activityType: { name: "keepContact" },
    heartbeatDetails: { payloads: [defaultPayloadConverter.toPayload({ use: {}, left })] },
  };
  const client = {
    options: {
      loadedDataConverter: { payloadCodecs: [], payloadConverter: defaultPayloadConverter },
    },
    withDeadline: (_at: number, call: () => unknown) => call(),
    workflow: {
      getHandle: () => ({
        describe: () => Promise.resolve({ raw: { pendingActivities: [beat] } }),
      }),
    },
  } as unknown as Client;
  const { shape } = fleetOf(SMALL_FLEET);
  const hosts = apply(emptyLedger(shape), {
    ...{ kind: "drain", hosts: [parseHostId("alpha/a2")], reason: "repair", nowMs: 1 },
  }).ledger.hosts;
  const trust = await fleetTrust(client, "eu", { hosts, shape });
  expect(trust.left).toEqual([{ host: "alpha/a1", why: "a launch failed" }]);
});
