/**
 * @file Runs the first task of a job, and that of one that fails at once, in the sandbox of Temporal's worker, and tells what that has loaded and noted. A thread of its own:
 * the sandbox puts hooks on all promises of its thread. `workerData`: the file of the bundle.
 */

import { defaultPayloadConverter } from "@temporalio/common";
import proto from "@temporalio/proto";
import { parseWorkflowCode } from "@temporalio/worker/lib/worker.js";
import { ReusableVMWorkflowCreator } from "@temporalio/worker/lib/workflow/reusable-vm.js";
import { readFileSync } from "node:fs";
import { runInContext } from "node:vm";
import { parentPort, workerData } from "node:worker_threads";

const AT_MS = 1_700_000_000_000;
const creator = await ReusableVMWorkflowCreator.create(
  parseWorkflowCode(readFileSync(workerData, "utf8")),
  60_000,
  new Set(["admit"]),
);

const workflowType = "job";

async function look(workflowId) {
  const runId = `run-of-${workflowId}`;
  const startTime = new Date(AT_MS);
  const workflow = await creator.createWorkflow({
    info: {
      ...{ workflowId, runId, workflowType, memo: {}, searchAttributes: {} },
      ...{ attempt: 1, taskTimeoutMs: 10_000, taskQueue: "jobs", namespace: "default", startTime },
      ...{ historyLength: 3, historySize: 300, unsafe: { now: Date.now, isReplaying: false } },
      typedSearchAttributes: { get: () => undefined },
    },
    ...{ randomnessSeed: [1, 2, 3, 4], now: AT_MS, showStackTraceSources: false },
  });
  const answer = await workflow.activate(
    proto.coresdk.workflow_activation.WorkflowActivation.fromObject({
      ...{ runId, timestamp: { seconds: AT_MS / 1_000 }, historyLength: 3 },
      jobs: [
        {
          initializeWorkflow: {
            ...{ workflowType, workflowId },
            arguments: [defaultPayloadConverter.toPayload({ name: "looked-at" })],
          },
        },
      ],
      availableInternalFlags: [1, 2, 3, 4, 5, 6],
    }),
  );
  const { moduleCache, promiseStackStore } = workflow.activator;
  const commands = answer.successful?.commands ?? [];
  return {
    commands: commands.flatMap(Object.keys),
    failure: commands[0]?.failWorkflowExecution?.failure,
    loaded: [...moduleCache.keys()],
    stacks: promiseStackStore.promiseToStack.size,
  };
}

const looks = { job: await look("job-1"), failing: await look("") };
// The realm's own error, whatever its globals are called now: other kinds of errors extend it.
const isErrorFrozen = runInContext(
  "Object.isFrozen(Object.getPrototypeOf(TypeError))",
  creator.context,
);
parentPort.postMessage({ ...looks, isErrorFrozen });
