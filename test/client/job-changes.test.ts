/** @file What a job's history says of who did what, though a sender writes what it likes into it. */

import type { Client } from "@temporalio/client";
import { defaultPayloadConverter } from "@temporalio/common";
import { expect, it } from "vitest";
import { jobChanges } from "../../client/job-changes.ts";
import { jobId } from "../../domain/values/ids.ts";
import { PROOF_MEMO } from "../../protocol/signed-job.ts";

const startedWith = (memo: unknown): Client =>
  ({
    withDeadline: (_: unknown, call: () => unknown) => call(),
    options: {
      namespace: "default",
      loadedDataConverter: { payloadCodecs: [], payloadConverter: defaultPayloadConverter },
    },
    workflow: {
      getHandle: () => ({
        fetchHistory: () =>
          Promise.resolve({
            events: [
              {
                eventTime: { seconds: 1, nanos: 0 },
                workflowExecutionStartedEventAttributes: {
                  identity: "mallory",
                  memo: { fields: { [PROOF_MEMO]: memo } },
                },
              },
            ],
          }),
      }),
    },
  }) as unknown as Client;

it.each([
  [
    "of no known encoding",
    { metadata: { encoding: Buffer.from("of its own") }, data: Buffer.from("x") },
  ],
  [
    "that is no JSON",
    { metadata: { encoding: Buffer.from("json/plain") }, data: Buffer.from("{") },
  ],
  ["that is no signature", defaultPayloadConverter.toPayload("junk")],
])("a proof %s hides nothing of the history, and names no signer", async (_, memo) => {
  const [start, ...others] = await jobChanges(startedWith(memo), jobId("a"));
  expect(start).toMatchObject({ act: "start", identity: "mallory" });
  expect(start).not.toHaveProperty("signer");
  expect(others).toEqual([]);
});
