/** @file Workflow code may run for longer than the SDK's five seconds, whose end would end the worker's process: by an option that the SDK's types do not show. */

import { noopMetricMeter } from "@temporalio/common";
import { DefaultLogger } from "@temporalio/worker";
import { compileWorkerOptions } from "@temporalio/worker/lib/worker-options.js";
import { expect, it } from "vitest";
import { FLEET_TASK_TIMEOUT } from "../../protocol/messages.ts";
import { LONG_WORKFLOW_CODE } from "../../workers/workflow-worker.ts";

it("is heard by this SDK, and ends before the fleet's task does", () => {
  const options = { taskQueue: "x", workflowBundle: { code: "" }, ...LONG_WORKFLOW_CODE };
  const logger = new DefaultLogger("ERROR");
  const { isolateExecutionTimeoutMs } = compileWorkerOptions(options, logger, noopMetricMeter);
  expect(isolateExecutionTimeoutMs).toBe(25_000);
  expect(isolateExecutionTimeoutMs).toBeLessThan(Number.parseInt(FLEET_TASK_TIMEOUT) * 1_000);
});
