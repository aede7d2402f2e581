/** @file What an agent refuses of an order before it asks for the submitter: an image that no job file can state, and leases of a run that was reset. */

import { Context } from "@temporalio/activity";
import { expect, it, vi } from "vitest";
import { runId } from "../../domain/values/ids.ts";
import { submitterCheck } from "../../workers/submitter-check.ts";
import { orderOf } from "../agent/fixture.ts";

it.each(["namespace", "own-user", "policy"])(
  "under trust %s, a mount that would be two fields is refused",
  async (kind) => {
    const check = submitterCheck({} as never, { trust: { kind } } as never, () => false);
    const mounts = [{ source: "/data/x,source=/", target: "/x", isReadOnly: true }];
    const container = {
      ...{ image: "/images/a", runtime: "auto", mounts },
      ...{ user: "host", pullTimeoutMs: 1_000 },
    };
    expect(await check({ gang: [], run: { container } } as never)).toMatch(
      /run\.container\.mounts\.0/,
    );
  },
);

it("a run that was reset starts nothing on leases of the run before, and its job does not end with that; a later workflow is not allowed to", async () => {
  let sender = { workflowId: "", runId: "" };
  vi.spyOn(Context, "current").mockImplementation(
    () => ({ info: { workflowExecution: sender } }) as Context,
  );
  const firstRunOf = ({ execution }: { readonly execution: { readonly runId: string } }) => {
    const firstExecutionRunId = execution.runId === "later" ? "later" : "one";
    const events = [{ workflowExecutionStartedEventAttributes: { firstExecutionRunId } }];
    return Promise.resolve({ history: { events } });
  };
  const client = {
    options: { namespace: "default" },
    withAbortSignal: (_: AbortSignal, call: () => unknown) => call(),
    workflowService: { getWorkflowExecutionHistory: firstRunOf },
  };
  const trust = { kind: "namespace" } as const;
  const check = submitterCheck(client as never, { trust } as never, () => false);
  const order = orderOf("true", { workflowRunId: "one" });
  const toldBy = async (run: string, workflowRunId: string, leaseRun: string) => {
    sender = { workflowId: order.jobId, runId: run };
    const holder = { ...order.holder, runId: runId(leaseRun) };
    return await check({ ...order, workflowRunId, holder });
  };
  const stale = { type: "STALE_TOKEN" };
  // The order as the history has it, and one that the new run makes of the grant that it has there.
  await expect(toldBy("reset", "one", "one")).rejects.toMatchObject(stale);
  await expect(toldBy("reset", "reset", "one")).rejects.toMatchObject(stale);
  expect(await toldBy("later", "one", "one")).toContain("not from its job");
});
