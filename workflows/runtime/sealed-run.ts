/**
 * @file Says with what a run asks for how its own input came, where that may be a reason to refuse it. It issues no commands.
 *
 * Of a flawed input the activities that the run asks for say so in a header, and workers with keys refuse them (`workers/sealed-tasks.ts`), until one has
 * answered under a key that binds: somebody with the keys has heard the run then. What comes in the open proves nothing, because whoever takes a task of our queues
 * answers it. So such a run does nothing, and one that began before there were keys goes on. Workflows that tell an activity of the flaw themselves have no such header.
 */

import {
  workflowInfo,
  type ActivityInput,
  type LocalActivityInput,
  type WorkflowInterceptorsFactory,
} from "@temporalio/workflow";
import { defaultPayloadConverter } from "@temporalio/common";
import { FLEET_WORKFLOW, LOBBY_WORKFLOW, SWEEP_WORKFLOW } from "../../protocol/messages.ts";
import { TIMED_DRAIN_WORKFLOW } from "../../protocol/timed-drain.ts";
import { flawOf, INPUT_FLAW_HEADER, type CameFlawed } from "../../protocol/seal.ts";

const TOLD_BY_HEADER: ReadonlySet<string> = new Set([
  FLEET_WORKFLOW,
  LOBBY_WORKFLOW,
  SWEEP_WORKFLOW,
  TIMED_DRAIN_WORKFLOW,
]);

export const interceptors: WorkflowInterceptorsFactory = () => {
  /** Until somebody with the keys has answered. */
  let came: CameFlawed | undefined;

  const withFlaw = <Input extends ActivityInput | LocalActivityInput>(input: Input): Input =>
    came === undefined
      ? input
      : {
          ...input,
          headers: {
            ...input.headers,
            [INPUT_FLAW_HEADER]: defaultPayloadConverter.toPayload(came),
          },
        };
  return {
    internals: [
      {
        activate(input, next) {
          const { activation } = input;
          const jobs = activation.jobs ?? [];
          for (const { initializeWorkflow: start } of jobs) {
            if (!isSet(start)) continue;
            const flaw = flawOf(start.arguments);
            const { startTime, workflowType } = workflowInfo();
            if (flaw !== undefined && TOLD_BY_HEADER.has(workflowType))
              came = { flaw, atMs: startTime.getTime() };
          }
          const answers = jobs.map(
            ({ resolveActivity: answer }) => answer?.result?.completed?.result,
          );
          if (answers.some((answer) => isSet(answer) && flawOf([answer]) === undefined))
            came = undefined;
          next(input);
        },
      },
    ],
    outbound: [
      {
        scheduleActivity: (input, next) => next(withFlaw(input)),
        scheduleLocalActivity: (input, next) => next(withFlaw(input)),
      },
    ],
  };
};

const isSet = <Value>(value: Value | null | undefined): value is Value =>
  value !== null && value !== undefined;
