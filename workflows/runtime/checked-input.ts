/**
 * @file Ends a run at once, with the reason, whose input has not the form that its type reads. An interceptor of all workflows; it issues no other command.
 *
 * What a run has handed to the next one is not looked at: it may have the form of another release, whose worker takes the task that fails.
 */

import {
  ApplicationFailure,
  workflowInfo,
  type WorkflowInterceptorsFactory,
} from "@temporalio/workflow";
import { inputProblem } from "../../protocol/workflow-inputs.ts";

export const interceptors: WorkflowInterceptorsFactory = () => ({
  inbound: [
    {
      async execute(input, next) {
        const { workflowType, continuedFromExecutionRunId } = workflowInfo();
        const problem =
          continuedFromExecutionRunId === undefined
            ? inputProblem(workflowType, input.args[0])
            : undefined;
        if (problem !== undefined) throw ApplicationFailure.nonRetryable(problem, "BAD_INPUT");
        return await next(input);
      },
    },
  ],
});
