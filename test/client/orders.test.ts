/** @file What becomes of an order where nobody answers: it is given again only if nobody took it, and whoever gave it hears the truth. */

import {
  WorkflowUpdateRPCTimeoutOrCancelledError,
  type Client,
  type ServiceError,
} from "@temporalio/client";
import { expect, it } from "vitest";
import { ordered } from "../../client/orders.ts";
import { defineUpdate } from "@temporalio/workflow";
import type { OrderOutcome, Proven } from "../../protocol/messages.ts";

const DRAIN = defineUpdate<null, Proven<string>>("drain");
const PENDING: OrderOutcome = { kind: "pending" };

/** A workflow that says these things, one after the other; an error is thrown. */
function saying(updates: readonly unknown[], outcomes: readonly unknown[]) {
  const given: string[] = [];
  const said = (list: readonly unknown[], at: number): Promise<unknown> => {
    const next = list[Math.min(at, list.length - 1)];
    return next instanceof Error ? Promise.reject(next) : Promise.resolve(next);
  };
  let questions = 0;
  const handle = {
    executeUpdate: (_update: unknown, { updateId }: { readonly updateId: string }) =>
      said(updates, given.push(updateId) - 1),
    query: () => said(outcomes, questions++),
  };
  const client = {
    workflow: { getHandle: () => handle },
    withDeadline: (_atMs: number, call: () => Promise<unknown>) => call(),
  };
  const order = () =>
    ordered<null, string>(
      { client: client as unknown as Client, workflowId: "w", subject: "fleet eu" },
      DRAIN,
      "h0",
    );
  return { given, order };
}

function grpc(code: number, details: string): ServiceError {
  const cause = Object.assign(new Error(details), { code, details, metadata: {} });
  return Object.assign(new Error("call"), { cause }) as ServiceError;
}

it("is given again, under the same id, where the server dropped it with the task that was to take it", async () => {
  const dropped = grpc(9, "update failed: unexpected workflow task failure");
  const { given, order } = saying([dropped, dropped, null], [{ kind: "done", answer: null }]);
  await order();
  expect([given.length, new Set(given).size]).toEqual([3, 1]);
});

it("that was taken is not given again while nobody says what became of it", async () => {
  const silence = grpc(4, "deadline exceeded");
  const { given, order } = saying(
    [null],
    [PENDING, silence, silence, { kind: "done", answer: null }],
  );
  await order();
  expect(given).toHaveLength(1);
});

it("that was taken is refused as the workflow says", async () => {
  const why = { code: "NOT_ALLOWED", message: "no such host" };
  const { order } = saying([null], [PENDING, { kind: "refused", ...why }]);
  await expect(order()).rejects.toMatchObject(why);
});

it.each([
  [1, "cancelled"],
  [2, "received RST_STREAM with code 2"],
  [4, "deadline exceeded"],
  [10, "shard status unknown"],
  [13, "stream ended"],
  [14, "connection dropped"],
])("of which nobody knows says so: status %i, %s", async (code, details) => {
  const lost = grpc(code, details);
  const late = new WorkflowUpdateRPCTimeoutOrCancelledError(details, {
    cause: lost.cause as Error,
  });
  const { given, order } = saying([code === 4 ? late : lost], []);
  await expect(order()).rejects.toMatchObject({
    code: "NO_CONNECTION",
    message: expect.stringMatching(/[^.]\. The order may still be carried out: .* fleet eu before/),
  });
  expect(given).toHaveLength(1);
});

it.each([
  [3, "no such update"],
  [7, "no rights"],
  [9, "Workflow Task in failed state"],
  [12, "unknown method"],
])("that the server has refused says no such thing: status %i, %s", async (code, details) => {
  const { order } = saying([grpc(code, details)], []);
  await expect(order()).rejects.toMatchObject({
    message: expect.not.stringContaining("may still be carried out"),
  });
});
