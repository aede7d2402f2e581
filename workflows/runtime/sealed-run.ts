/**
 * @file Says with what a run asks for how its own input came, where that may be a reason to refuse it. It issues no commands.
 *
 * Of a flawed input the activities that the run asks for say so in a header, until the first has answered, and workers with keys refuse them
 * (`workers/sealed-tasks.ts`). So such a run does nothing, and one that began before there were keys goes on. Workflows that tell an activity of the flaw
 * themselves have no such header.
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
  /** Until an activity has answered. */
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
          // One that was refused has answered, too.
          if (jobs.some(({ resolveActivity: answer }) => isSet(answer?.result?.completed)))
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
