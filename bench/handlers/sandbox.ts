/**
 * @file Runs one workflow in the sandbox of Temporal's worker, without a server: its start, then one task with the signals that are timed.
 *
 * The worker's own classes, in this thread: what they do from the activation to its completion is what must end within the worker's
 * limit of five seconds. Decoding by codecs comes before, for every workflow alike.
 */

import { defaultPayloadConverter } from "@temporalio/common";
import proto from "@temporalio/proto";
import { parseWorkflowCode } from "@temporalio/worker/lib/worker.js";
import { ReusableVMWorkflowCreator } from "@temporalio/worker/lib/workflow/reusable-vm.js";

export interface Sandbox {
  /** Processor and wall time of the task with these signals, each with one argument. */
  readonly time: (task: TimedTask) => Promise<TaskCost>;
}

export interface TimedTask {
  readonly workflowType: string;
  readonly input: readonly unknown[];
  readonly signal: string;
  readonly values: readonly unknown[];
}

export interface TaskCost {
  readonly processorMs: number;
  readonly wallMs: number;
}

/** What the worker allows in production is what is to be measured, so it does not end the measurement. */
const NO_LIMIT_MS = 600_000;
const STARTED_AT_MS = 1_700_000_000_000;
/** Those that a fleet may start in its first tasks: the sandbox asks whether its worker knows them. */
const LOCAL_ACTIVITIES = new Set(["decideNext"]);
/** Of the SDK: jobs of an activation in one batch, and so on, as in new runs. */
const SDK_FLAGS = [1, 2, 3, 4, 5, 6];

export async function openSandbox(code: string): Promise<Sandbox> {
  const creator = await ReusableVMWorkflowCreator.create(
    parseWorkflowCode(code),
    NO_LIMIT_MS,
    LOCAL_ACTIVITIES,
  );
  let runs = 0;
  return {
    async time({ workflowType, input, signal, values }) {
      runs += 1;
      const runId = `${workflowType}-${runs}`;
      const workflow = await creator.createWorkflow({
        info: infoOf(workflowType, runId),
        randomnessSeed: [1, 2, 3, 4],
        now: STARTED_AT_MS,
        showStackTraceSources: false,
      } as unknown as Parameters<typeof creator.createWorkflow>[0]); // only what the sandbox reads
      const activate = async (atMs: number, jobs: readonly object[]): Promise<void> => {
        const { failed } = await workflow.activate(activationOf({ runId, atMs, jobs }));
        if (failed) throw new Error(failed.failure?.message ?? "the task failed");
      };
      const payloads = input.map((value) => defaultPayloadConverter.toPayload(value));
      const start = { workflowType, workflowId: runId, arguments: payloads };
      await activate(STARTED_AT_MS, [{ initializeWorkflow: start }]);
      const jobs = values.map((value) => ({
        signalWorkflow: {
          signalName: signal,
          input: [defaultPayloadConverter.toPayload(value)],
          identity: "bench",
        },
      }));
      const before = process.cpuUsage();
      const beganMs = performance.now();
      await activate(STARTED_AT_MS + 1_000, jobs);
      const wallMs = performance.now() - beganMs;
      const { user, system } = process.cpuUsage(before);
      await workflow.dispose();
      return { processorMs: (user + system) / 1_000, wallMs };
    },
  };
}

const infoOf = (workflowType: string, runId: string): object => ({
  workflowId: runId,
  runId,
  workflowType,
  searchAttributes: {},
  memo: {},
  firstExecutionRunId: runId,
  attempt: 1,
  taskTimeoutMs: 10_000,
  taskQueue: "bench",
  namespace: "default",
  historyLength: 3,
  historySize: 300,
  continueAsNewSuggested: false,
  startTime: new Date(STARTED_AT_MS),
  runStartTime: new Date(STARTED_AT_MS),
  unsafe: { now: () => Date.now(), isReplaying: false },
});

const activationOf = ({
  runId,
  atMs,
  jobs,
}: {
  readonly runId: string;
  readonly atMs: number;
  readonly jobs: readonly object[];
}): proto.coresdk.workflow_activation.WorkflowActivation =>
  proto.coresdk.workflow_activation.WorkflowActivation.fromObject({
    runId,
    timestamp: { seconds: Math.floor(atMs / 1_000), nanos: (atMs % 1_000) * 1e6 },
    isReplaying: false,
    historyLength: 3,
    jobs,
    availableInternalFlags: SDK_FLAGS,
  });
