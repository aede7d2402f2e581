/** @file Workflows that help a client start in a division of their own, and without one where the server does not let clients say so. */

import { ServiceError, type Client } from "@temporalio/client";
import { expect, it } from "vitest";
import { startHelper } from "../../client/helper-workflow.ts";

const OPTIONS = { workflowId: "w", taskQueue: "q", args: [] };

/** Refuses the first start with this. */
function temporal(refusal?: Error) {
  const started: Record<string, unknown>[] = [];
  const start = (_type: string, options: Record<string, unknown>): Promise<unknown> => {
    started.push(options);
    return refusal !== undefined && started.length === 1
      ? Promise.reject(refusal)
      : Promise.resolve({});
  };
  // The fake has what a start uses of a client.
  return { client: { workflow: { start } } as unknown as Client, started };
}

const invalid = (details: string): Error =>
  new ServiceError("start failed", {
    cause: Object.assign(new Error(), { code: 3, details, metadata: {} }),
  });

it("a helper is in the division of helpers", async () => {
  const { client, started } = temporal();
  await startHelper(client, "wake", OPTIONS);
  expect(started).toEqual([
    {
      ...OPTIONS,
      typedSearchAttributes: [
        {
          key: expect.objectContaining({ name: "TemporalNamespaceDivision" }) as object,
          value: "orbweaver-helpers",
        },
      ],
    },
  ]);
});

it("a server that refuses the division gets the helper without it", async () => {
  const { client, started } = temporal(
    invalid("TemporalNamespaceDivision search attribute can't be set"),
  );
  await startHelper(client, "wake", OPTIONS);
  expect(started).toHaveLength(2);
  expect(started[1]).toEqual(OPTIONS);
});

it("any other refusal is the caller's", async () => {
  const refusal = invalid("no");
  const { client, started } = temporal(refusal);
  await expect(startHelper(client, "wake", OPTIONS)).rejects.toBe(refusal);
  expect(started).toHaveLength(1);
});
