/** @file What an agent sees of its gang with the server: heartbeats of runs that go on, and none of one that has been cancelled. */

import type { Client } from "@temporalio/client";
import { defaultPayloadConverter } from "@temporalio/common";
import proto from "@temporalio/proto";
import { expect, test } from "vitest";
import { createGangWatcher } from "../../agent/system/gang-watcher.ts";
import type { RunOrder } from "../../protocol/agent-contract.ts";

const { PENDING_ACTIVITY_STATE_CANCEL_REQUESTED, PENDING_ACTIVITY_STATE_STARTED } =
  proto.temporal.api.enums.v1.PendingActivityState;

const beatOf = (host: string, state: number) => ({
  activityType: { name: "run" },
  state,
  heartbeatDetails: {
    payloads: [defaultPayloadConverter.toPayload({ phase: "prepared", host, token: 7 })],
  },
});

/** The server takes heartbeats of a run that was cancelled, so a host that woke late would see its own order as one that somebody waits for. */
test("a run that has been cancelled is not seen, though its heartbeats are taken", async () => {
  const pendingActivities = [
    beatOf("alpha/a1", PENDING_ACTIVITY_STATE_CANCEL_REQUESTED),
    beatOf("alpha/a2", PENDING_ACTIVITY_STATE_STARTED),
  ];
  const client = {
    options: {
      loadedDataConverter: { payloadCodecs: [], payloadConverter: defaultPayloadConverter },
    },
    withAbortSignal: (_signal: AbortSignal, call: () => unknown) => call(),
    workflow: {
      getHandle: () => ({
        describe: () =>
          Promise.resolve({ status: { name: "RUNNING" }, raw: { pendingActivities } }),
      }),
    },
  } as unknown as Client;
  const order = { workflowId: "job", workflowRunId: "run-1" } as RunOrder;
  const { isClosed, beats } = await createGangWatcher(client).look(order);
  expect([isClosed, beats.map(({ host }) => host)]).toEqual([false, ["alpha/a2"]]);
});
