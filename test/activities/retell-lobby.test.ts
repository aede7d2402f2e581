/** @file What a lobby that was ended by hand was told is told to the next one, through a stand-in for Temporal's client. */

import { asyncLocalStorage, type Context } from "@temporalio/activity";
import { WorkflowNotFoundError, type Client } from "@temporalio/client";
import { defaultPayloadConverter, type Payload } from "@temporalio/common";
import { expect, test } from "vitest";
import { createLobbyActivities } from "../../activities/lobby-activities.ts";
import { tenantId } from "../../domain/values/ids.ts";
import { lobbyLeaveSignal, lobbyNewsSignal } from "../../protocol/messages.ts";

interface Told {
  readonly signal: string;
  readonly payload: Payload;
}

const payloadOf = (value: unknown): Payload => defaultPayloadConverter.toPayload(value) ?? {};
const NEWS: Told = { signal: lobbyNewsSignal.name, payload: payloadOf({ rows: [], credits: [7] }) };
const LEAVE: Told = { signal: lobbyLeaveSignal.name, payload: payloadOf({ jobId: "a" }) };
const UNREADABLE: Told = {
  signal: lobbyNewsSignal.name,
  payload: { metadata: { encoding: Buffer.from("json/plain") }, data: Buffer.from("{") },
};

/** What the next lobby is told of these former runs; the server has deleted all others. */
async function retold(
  kept: Readonly<Record<string, readonly Told[]>>,
  runs: readonly string[],
): Promise<readonly unknown[]> {
  const heard: unknown[] = [];
  const getHandle = (id: string, runId?: string) => ({
    signal: (name: { readonly name: string } | string, value: unknown) => {
      heard.push([typeof name === "string" ? name : name.name, value]);
      return Promise.resolve();
    },
    describe: () =>
      runId !== undefined && runId in kept
        ? Promise.resolve({})
        : Promise.reject(new WorkflowNotFoundError("no such run", id, runId)),
  });
  const getWorkflowExecutionHistory = ({
    execution: { runId },
  }: {
    readonly execution: { readonly runId: string };
  }) => {
    const told = kept[runId];
    if (told === undefined) return Promise.reject(new Error("5 NOT_FOUND"));
    const events = told.map(({ signal, payload }) => ({
      workflowExecutionSignaledEventAttributes: {
        signalName: signal,
        input: { payloads: [payload] },
      },
    }));
    return Promise.resolve({ history: { events }, nextPageToken: new Uint8Array() });
  };
  const client = {
    options: { namespace: "default" },
    workflow: { getHandle },
    workflowService: { getWorkflowExecutionHistory },
  } as unknown as Client;
  const checkWords = () => Promise.resolve({ refused: [] });
  const { retellLobby } = createLobbyActivities(client, { checkWords });
  const context = { heartbeat: () => undefined } as unknown as Context;
  await asyncLocalStorage.run(context, () =>
    retellLobby({ fleet: "eu", tenant: tenantId("red"), runs }),
  );
  return heard;
}

const ALL = [
  [lobbyNewsSignal.name, { rows: [], credits: [] }],
  [lobbyLeaveSignal.name, { jobId: "a" }],
];

test("in its order, without credits", async () => {
  expect(await retold({ one: [NEWS], two: [LEAVE] }, ["one", "two"])).toEqual(ALL);
});

// Until it has been told all, the lobby says nothing to its fleet.
test("also where the server has deleted one of the former runs meanwhile", async () => {
  expect(await retold({ two: [NEWS, LEAVE] }, ["one", "two"])).toEqual(ALL);
});

test("without what nobody can read", async () => {
  expect(await retold({ one: [NEWS, UNREADABLE, LEAVE] }, ["one"])).toEqual(ALL);
});
