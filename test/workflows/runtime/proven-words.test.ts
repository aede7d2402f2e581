/** @file An order to a learner is under way before the run may take it that nothing waits any more. */

import { afterAll, beforeAll, expect, test, vi } from "vitest";

let handle: ((order: string, proof?: string) => unknown) | undefined;
beforeAll(() => {
  vi.resetModules();
  const checkWords = async () => ({ refused: [] });
  const define = (name: string) => ({ name });
  // As the SDK's, without its sandbox.
  vi.doMock("@temporalio/workflow", () => ({
    ApplicationFailure: Error,
    condition: async () => undefined,
    currentUpdateInfo: () => undefined,
    defineQuery: define,
    defineSignal: define,
    defineUpdate: define,
    patched: () => true,
    proxyActivities: () => ({ checkWords, asksForProof: async () => true }),
    proxyLocalActivities: () => ({}),
    setHandler: (_update: unknown, handler: typeof handle) => (handle = handler),
    workflowInfo: () => ({ workflowId: "w", startTime: new Date(), memo: {} }),
  }));
});
afterAll(() => {
  vi.doUnmock("@temporalio/workflow");
  vi.resetModules();
});

test("an order that has passed is carried out before nothing waits, and what it throws is its answer", async () => {
  const { askFleetForProof, hearWords, isHearing, onProvenUpdate } =
    await import("../../../workflows/runtime/proven-words.ts");
  await askFleetForProof("fleet");
  const done: string[] = [];
  onProvenUpdate({ name: "train", type: "update" } as never, (order: string) => {
    done.push(order);
    if (order === "bad") throw new Error("no");
    return order;
  });
  const answers = ["good", "bad"].map(async (order) => handle?.(order));
  const outcomes = Promise.allSettled(answers);
  expect(isHearing()).toBe(true);
  const heard = hearWords();
  // Looks after each step, as the conditions of a run may.
  for (let at = 0; isHearing() && at < 1_000; at += 1) await Promise.resolve();
  expect(done).toEqual(["good", "bad"]);
  await heard;
  expect((await outcomes).map(({ status }) => status)).toEqual(["fulfilled", "rejected"]);
});
