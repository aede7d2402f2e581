/** @file The audit's question to all that believe only what is proven: who is away is left out, and an answer that cannot be read is no silence. */

import { ServiceError, WorkflowNotFoundError, type Client } from "@temporalio/client";
import { expect, it } from "vitest";
import { defaultPayloadConverter } from "@temporalio/common";
import { disbelievedByAttendants, disbelievedByHosts } from "../../client/disbelieved.ts";
import { emptyLedger } from "../../scheduling/ledger/apply/apply.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { presenceWorkflowId } from "../../protocol/messages.ts";
import { listingServer } from "../support/listing-server.ts";
import { fleetOf, SMALL_FLEET } from "../support/world.ts";

const PRESENCE = presenceWorkflowId("eu", "alpha");

/** `answer`: of the presence of the one cluster; there is nothing else. */
function clientOf(answer: () => Promise<unknown>): Client {
  const none = (id: string) => Promise.reject(new WorkflowNotFoundError("gone", id, undefined));
  const client = {
    // No lobby and no tuner is open.
    ...listingServer([[]]),
    workflow: {
      getHandle: (id: string) => ({ query: () => (id === PRESENCE ? answer() : none(id)) }),
    },
  };
  return client as unknown as Client;
}

it("names the workflow that did not believe a word, and leaves out those that are not there", async () => {
  const word = {
    sender: "mallory",
    times: 2,
    word: "announce",
    reason: "it is not signed",
    atMs: 5,
  };
  const client = clientOf(() => Promise.resolve([word]));
  expect(await disbelievedByAttendants(client, "eu", fleetOf(SMALL_FLEET).shape)).toMatchObject([
    { sender: "mallory", times: 2, what: "announce", why: "it is not signed", to: PRESENCE },
  ]);
});

it("leaves out a workflow for whose answer the server is too busy", async () => {
  const busy = Object.assign(new Error("busy"), {
    ...{ code: 8, details: "consistent query buffer is full", metadata: new Map() },
  });
  const client = clientOf(() => Promise.reject(new ServiceError("it failed", { cause: busy })));
  expect(await disbelievedByAttendants(client, "eu", fleetOf(SMALL_FLEET).shape)).toEqual([]);
});

it("fails where an answer cannot be read", async () => {
  const missing = new OrbweaverError("ENCRYPTION_KEY_MISSING", "key 1 is not here");
  const client = clientOf(() => Promise.reject(missing));
  const asked = disbelievedByAttendants(client, "eu", fleetOf(SMALL_FLEET).shape);
  await expect(asked).rejects.toMatchObject({ code: "ENCRYPTION_KEY_MISSING" });
});

it("has what hosts have refused from the heartbeats of their own agents, and nothing of a cluster that has none", async () => {
  const row = { sender: "w", times: 3, order: "stop of victim", why: "no ticket", atMs: 7 };
  const beat = (rows: unknown): object => ({
    activityType: { name: "keepContact" },
    heartbeatDetails: { payloads: [defaultPayloadConverter.toPayload({ refused: rows })] },
  });
  const pendingActivities = [
    beat({ "alpha/a1": [row, { ...row, times: -1 }, "junk"], "other/a1": [row] }),
    beat("junk"),
  ];
  const asClient = (describe: () => Promise<unknown>): Client =>
    ({
      options: {
        loadedDataConverter: { payloadCodecs: [], payloadConverter: defaultPayloadConverter },
      },
      withDeadline: (_at: number, call: () => unknown) => call(),
      workflow: { getHandle: () => ({ describe }) },
    }) as unknown as Client;
  const ledger = emptyLedger(fleetOf(SMALL_FLEET).shape);
  const there = asClient(() => Promise.resolve({ raw: { pendingActivities } }));
  expect(await disbelievedByHosts(there, "eu", ledger)).toEqual([
    { sender: "w", times: 3, what: "stop of victim", why: "no ticket", atMs: 7, to: "alpha/a1" },
  ]);
  const gone = asClient(() => Promise.reject(new WorkflowNotFoundError("gone", "p", undefined)));
  expect(await disbelievedByHosts(gone, "eu", ledger)).toEqual([]);
});
